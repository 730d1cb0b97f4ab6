"""What a reading says of when it came, if a former run took it on and the clock was set since."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.core.mqtt.session import MqttSession
from gateway.core.values import Reading
from tests.core.mqtt.broker_side import connected, options, readings, tag
from tests.storage.journal.support import (
    BOOT,
    NEXT_BOOT,
    NOW,
    UNIX_MS_AT_ZERO,
    Driven,
    new_reading,
)

LATER_S = 7200.0
CAME_MS = int(UNIX_MS_AT_ZERO + NOW * 1000)
DAYS_500_MS, HOUR_MS = 500 * 86_400_000, 3_600_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def stamp_of_next_run(
    folder: Path, step_ms: float, *, suspended_s: float = 0.0, boot: bytes = BOOT
) -> int:
    """The next run opens the journal, then the clock is set by `step_ms`, then the broker is there.

    The monotonic clock goes on, or begins at LATER_S again if there was a boot.
    """
    driven = Driven(folder, now=NOW + LATER_S, boot=boot)
    session = MqttSession(options())
    session.publisher.unix_ms_at_zero = UNIX_MS_AT_ZERO + step_ms
    session.publisher._pauses.suspended(suspended_s)
    (reading,) = driven.read()
    session.publisher.in_flight.backlog.queued(reading, coalesce=False)
    session.publisher.in_flight.backlog.read_back([reading])
    (packet,) = readings(connected(session))
    assert (tag(packet)["epoch"], tag(packet)["seq"]) == ("3", "0")
    return int(tag(packet)["ts"])


def store(folder: Path, reading: Reading) -> None:
    Driven(folder).store(reading, is_queued=True)


@pytest.mark.guarantee("10")
@pytest.mark.parametrize("step_ms", [-DAYS_500_MS, -HOUR_MS, -1000, 1000, HOUR_MS, DAYS_500_MS])
def test_in_the_same_boot_it_is_now_minus_its_age_whatever_the_clock_was(
    folder: Path, step_ms: int
) -> None:
    store(folder, new_reading(0))
    assert stamp_of_next_run(folder, step_ms) == CAME_MS + step_ms


def test_it_is_so_where_the_clock_was_not_set_at_all(folder: Path) -> None:
    early = new_reading(0)
    early.unix_ms = 60_000  # a minute of 1970
    store(folder, early)
    assert stamp_of_next_run(folder, 0) == CAME_MS


@pytest.mark.parametrize("drift_ms", [-999, 0, 999])
def test_a_clock_that_was_not_set_leaves_it_to_the_millisecond(folder: Path, drift_ms: int) -> None:
    """What a former run had sent is the same again."""
    store(folder, new_reading(0, received_at=NOW - 0.0014))
    stamp = int(UNIX_MS_AT_ZERO + (NOW - 0.0014) * 1000)
    assert stamp_of_next_run(folder, drift_ms) == stamp


@pytest.mark.guarantee("10")
@pytest.mark.parametrize("step_ms", [-DAYS_500_MS, 0, DAYS_500_MS])
def test_after_a_boot_nothing_tells_its_age_but_its_stamp(folder: Path, step_ms: int) -> None:
    store(folder, new_reading(0))
    assert stamp_of_next_run(folder, step_ms, boot=NEXT_BOOT) == CAME_MS


def test_one_that_came_in_the_future_of_this_clock_keeps_its_stamp(folder: Path) -> None:
    """A machine that was restored goes on under the same boot id with a former clock."""
    store(folder, new_reading(0, received_at=NOW + LATER_S + 1))
    assert stamp_of_next_run(folder, HOUR_MS) == CAME_MS + (LATER_S + 1) * 1000


def test_time_in_which_the_machine_was_suspended_is_no_step(folder: Path) -> None:
    """The monotonic clock stood still meanwhile, so that its zero is later by as much."""
    store(folder, new_reading(0))
    night_s = 8 * 3600.0
    assert stamp_of_next_run(folder, night_s * 1000, suspended_s=night_s) == CAME_MS


@pytest.mark.parametrize("step_ms", [-DAYS_500_MS, DAYS_500_MS])
def test_a_step_beyond_that_is_one(folder: Path, step_ms: int) -> None:
    store(folder, new_reading(0))
    night_ms = 8 * 3600_000
    found = stamp_of_next_run(folder, step_ms + night_ms, suspended_s=night_ms / 1000)
    assert 0 <= found - (CAME_MS + step_ms) <= night_ms


def test_what_was_stored_long_after_it_came_keeps_its_stamp(folder: Path) -> None:
    """A reading of a former run that was set aside and is sent again."""
    again = new_reading(0, received_at=NOW)
    again.unix_ms, again.machine_at = CAME_MS - DAYS_500_MS, -1.0
    store(folder, again)
    assert stamp_of_next_run(folder, HOUR_MS) == CAME_MS - DAYS_500_MS
