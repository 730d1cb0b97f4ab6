"""A simulated board that is switched on wakes and sleeps by itself, and can be reset and cut."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.boards.errors import BoardError
from hil.boards.wasi.power import PoweredBoard
from tests.support.boards import require_board

MAIN = """
import machine
memory = machine.RTC()
print("woke", machine.reset_cause(), memory.memory())
memory.memory(memory.memory() + b"x")
for number in range(2000):
    pass
print("worked")
machine.deepsleep(60_000)
"""
PATIENCE_S = 200.0


class Bench:
    def __init__(self, folder: Path, pause_s: float) -> None:
        flash = folder / "flash"
        flash.mkdir()
        (flash / "main.py").write_text(MAIN)
        self.log = folder / "console.log"
        self.power = PoweredBoard(flash, self.log, heap="32k", uarts=(), pause_s=pause_s)

    def wait_for(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + PATIENCE_S
        while (found := re.search(pattern, self.log.read_text(), re.DOTALL)) is None:
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.01)
        return found


@pytest.fixture
def awake(tmp_path: Path) -> Iterator[Bench]:
    """It sleeps for a moment only."""
    require_board()
    bench = Bench(tmp_path, pause_s=0.02)
    yield bench
    bench.power.cut()


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Bench]:
    require_board()
    bench = Bench(tmp_path, pause_s=60.0)
    yield bench
    bench.power.cut()


def test_it_wakes_from_deep_sleep_with_what_it_kept(awake: Bench) -> None:
    awake.wait_for(r"woke 1 b''.*woke 4 b'x'.*woke 4 b'xx'")
    assert awake.power.wakes[0].how == "deepsleep"
    assert all(wake.began_at < wake.ended_at for wake in awake.power.wakes)


def test_a_soft_reset_ends_its_sleep_and_keeps_its_memory(sleeper: Bench) -> None:
    sleeper.wait_for("worked")
    deadline = time.monotonic() + PATIENCE_S
    while not sleeper.power.wakes and time.monotonic() < deadline:
        time.sleep(0.01)
    sleeper.power.soft_reset()
    sleeper.wait_for("woke 5 b'x'")


def test_power_goes_at_a_share_of_a_wakes_work(awake: Bench) -> None:
    awake.wait_for("worked.*worked")
    awake.power.cut_in_wake(0.9)
    assert not awake.power.is_on
    assert awake.power.wakes[-1].how == "power_cut"
    said = awake.log.read_text().splitlines()
    assert said[-1].startswith("woke")  # and never worked


def test_a_board_that_does_not_wake_has_no_wake_to_be_cut_in(
    sleeper: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hil.boards.wasi.power.CUT_S_MAX", 0.3)
    sleeper.wait_for("worked")
    with pytest.raises(BoardError, match="no wake within 0 s in which to cut the power"):
        sleeper.power.cut_in_wake(0.5)
    assert not sleeper.power.is_on
