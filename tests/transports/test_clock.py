from __future__ import annotations

import asyncio
import time

import pytest

from gateway.core.process_pauses import ProcessPauses
from gateway.transports import clock
from gateway.transports.clock import machine_now, now, unix_ms_at_zero
from tests.transports.conftest import Run


@pytest.fixture(autouse=True)
def _new_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what was left out before in this process."""
    monkeypatch.setattr(clock, "pauses", ProcessPauses())
    monkeypatch.setattr(clock, "_left_out_s", 0.0)
    monkeypatch.setattr(clock, "_overdue_at", float("inf"))


def test_now_is_on_the_scale_of_the_event_loop(run: Run) -> None:
    async def story() -> None:
        before = now()
        # uvloop's clock stands still within one turn, and counts in milliseconds.
        await asyncio.sleep(0.002)
        in_between = asyncio.get_running_loop().time()
        assert before <= in_between + 0.001 <= now() + 0.001

    run(story())


def test_a_monotonic_time_becomes_wall_time() -> None:
    earliest = time.time_ns() // 1_000_000
    stamp = machine_now() * 1000 + unix_ms_at_zero()
    latest = time.time_ns() // 1_000_000
    assert earliest - 2 <= stamp <= latest + 2


def test_now_leaves_out_what_the_beat_is_late_by(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_at = 100.0
    monkeypatch.setattr(clock, "monotonic", lambda: machine_at)
    monkeypatch.setattr(clock, "_BOOTTIME", None)
    clock.beat()
    machine_at = 120.0
    assert (clock.now(), clock.machine_now()) == (101.0, 120.0)
    assert clock.look() == 1
    clock.rest()
    machine_at = 200.0
    assert (clock.now(), clock.look()) == (181.0, 1)


def test_a_suspended_machine_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    suspended_s = 5.0
    monkeypatch.setattr(clock, "monotonic", lambda: 100.0)
    monkeypatch.setattr(time, "clock_gettime", lambda _clock: 100.0 + suspended_s)
    clock.beat()
    suspended_s = 3605.0
    assert clock.look() == 1
    assert (clock.pauses.seconds, clock.now()) == (3600.0, 100.0)
