"""What an operator reads of a process that stood still."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gateway.core.process_pauses import ProcessPauses
from gateway.transports import clock
from gateway.transports.heartbeat import Heartbeat
from tests.transports.conftest import Run


class Machine:
    """Its monotonic clock."""

    at = 1000.0


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(clock, "pauses", ProcessPauses())
    monkeypatch.setattr(clock, "_left_out_s", 0.0)
    monkeypatch.setattr(clock, "_overdue_at", float("inf"))
    monkeypatch.setattr(clock, "_BOOTTIME", None)
    monkeypatch.setattr(clock, "monotonic", lambda: machine.at)
    return machine


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [each.getMessage() for each in caplog.records]
    caplog.clear()
    return found


def test_each_beat_is_told_and_a_pause_is_logged(
    run: Run, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        beats: list[float] = []
        heartbeat = Heartbeat(lambda: beats.append(clock.now()))
        heartbeat.start(asyncio.get_running_loop())
        machine.at += 21.1
        heartbeat._beat()
        assert beats == [1000.0, 1001.0]
        assert lines(caplog) == [
            "the process stood still for 20.1 s (stopped, or the machine was suspended or "
            "overloaded): timers are extended by that time"
        ]
        heartbeat.stop()
        heartbeat.stop()
        machine.at += 1000.0
        assert clock.now() == 2001.0

    with caplog.at_level(logging.WARNING, "tidegate"):
        run(story())


def test_a_board_that_is_always_late_is_one_line_a_minute(
    run: Run, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        heartbeat = Heartbeat(lambda: None)
        heartbeat.start(asyncio.get_running_loop())
        for _ in range(100):
            machine.at += 1.5
            heartbeat._beat()
        # By the clock of the core, in which 100 beats are 100 s.
        first, second = lines(caplog)
        assert first.startswith("the process stood still for 1.0 s in 2 pieces (stopped")
        assert second.startswith("the process stood still for 30.0 s in 60 pieces (stopped")
        machine.at += 11.0
        heartbeat._beat()
        (line,) = lines(caplog)
        assert "stood still for " in line
        heartbeat.stop()

    with caplog.at_level(logging.WARNING, "tidegate"):
        run(story())
