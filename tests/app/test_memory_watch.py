"""When memory is scarce, and when it no longer is."""

from __future__ import annotations

import logging

import pytest

from gateway.app.memory_watch import MemoryWatch
from gateway.host.memory_use import MemoryUse


class Scene:
    def __init__(self, percent_max: int = 90) -> None:
        self.told: list[bool] = []
        self.used: int | None = 0
        self.watch = MemoryWatch(percent_max, self.told.append, self.read)

    def read(self) -> MemoryUse | None:
        return None if self.used is None else MemoryUse(self.used << 20, 100 << 20, "a test")

    def look(self, used: int | None) -> bool:
        self.used = used
        self.watch.look()
        return self.watch.is_scarce


def test_it_begins_at_the_watermark_and_ends_some_percent_below(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    with caplog.at_level(logging.WARNING):
        looks = [scene.look(used) for used in (0, 89, 90, 99, 90, 86, 85, 84, 89, 90)]
    assert looks == [False, False, True, True, True, True, True, False, False, True]
    assert scene.told == [True, False, True]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING", "ERROR"]
    assert "90 % of the 100 MiB of a test are used" in caplog.messages[0]
    assert scene.watch.numbers().is_scarce


def test_where_nothing_is_known_it_never_is() -> None:
    scene = Scene()
    assert not scene.look(None)
    assert scene.watch.numbers().limit_bytes == 0
    assert scene.look(95)
    assert not scene.look(None)


def test_it_can_be_turned_off() -> None:
    scene = Scene(100)
    assert not scene.look(100)
    assert not scene.look(200)
    assert scene.told == []
