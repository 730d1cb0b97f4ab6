"""Commands to the gateway itself: which are followed, and what is said of the others."""

from __future__ import annotations

import logging

import pytest

from gateway.core.effects import OwnTopicReceived
from gateway.presence.gateway_commands import LINE_EVERY_S, RESTART_EVERY_S, GatewayCommands

BASE = "site/tidegate/gh/command/"


class Bench:
    def __init__(self) -> None:
        self.done: list[str] = []
        self.commands = GatewayCommands(
            BASE,
            restart=lambda: self.done.append("restart"),
            log_levels={"debug": lambda: self.done.append("debug")},
            started_at=1000.0,
            join=lambda seconds: self.done.append(f"join {seconds:.0f}"),
        )

    def receive(
        self, name: str, payload: bytes, after_s: float = 100.0, *, is_retained: bool = False
    ) -> None:
        received = OwnTopicReceived(f"{BASE}{name}", payload, is_retained)
        assert self.commands.receive(received, 1000.0 + after_s)


def test_a_restart_and_a_level_are_followed() -> None:
    bench = Bench()
    bench.receive("restart", b"PRESS")
    bench.receive("log_level", b"debug", 0.5)
    assert bench.done == ["restart", "debug"]


def test_joining_is_opened_and_closed() -> None:
    bench = Bench()
    bench.receive("permit_joining", b"ON")
    bench.receive("permit_joining", b"OFF")
    assert bench.done == ["join 254", "join 0"]


def test_there_is_no_loop_of_restarts() -> None:
    bench = Bench()
    bench.receive("restart", b"PRESS", RESTART_EVERY_S - 1)
    assert bench.done == []
    bench.receive("restart", b"PRESS", RESTART_EVERY_S)
    assert bench.done == ["restart"]


@pytest.mark.parametrize(
    ("name", "payload", "is_retained", "why"),
    [
        ("restart", b"PRESS", True, "it is retained"),
        ("log_level", b"debug", True, "it is retained"),
        ("permit_joining", b"ON", True, "it is retained"),
        ("permit_joining", b"1", False, "expected ON or OFF"),
        ("log_level", b"loud", False, "expected one of debug"),
        ("log_level", b"\xff", False, "expected one of debug"),
        ("permit", b"1" * 1000, False, "there is none of this name; restart and log_level are"),
    ],
)
def test_what_is_not_followed_is_logged(
    name: str, payload: bytes, is_retained: bool, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.receive(name, payload, is_retained=is_retained)
    assert bench.done == []
    (line,) = caplog.messages
    assert line.endswith(why)
    assert len(line) < 200


def test_a_flood_of_them_is_a_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    for _ in range(100):
        bench.receive("x", b"y")
    assert len(caplog.messages) == 1
    bench.receive("x", b"y", 100.0 + LINE_EVERY_S)
    assert len(caplog.messages) == 2


def test_a_cleared_one_is_none(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bench = Bench()
    bench.receive("restart", b"")
    assert bench.done == []
    assert caplog.messages == []


def test_others_topics_are_left_to_others() -> None:
    birth = OwnTopicReceived("homeassistant/status", b"online", False)
    assert not Bench().commands.receive(birth, 0.0)
