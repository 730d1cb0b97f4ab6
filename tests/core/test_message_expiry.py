"""The clocks by which a message is over, one at a time."""

from __future__ import annotations

from math import inf

import pytest

from gateway.core.message_expiry import (
    CLOCK_IS_SET_MS,
    SAVE_FIRST_S,
    SAVE_RUN_TIME_S,
    ExpiryClock,
)
from gateway.core.process_pauses import BEAT_S, ProcessPauses
from gateway.core.state_records import ExpiryRecord, RunTimeRecord

UNIX_MS = 1_800_000_000_000


def clock(unix_ms_at_zero: float = UNIX_MS, *, run_ms: int = 0) -> ExpiryClock:
    found = ExpiryClock(ProcessPauses())
    found.set_wall_clock(unix_ms_at_zero)
    found.go_on_from(run_ms, 0.0)
    return found


def test_what_is_saved_has_all_clocks() -> None:
    expiry = clock(run_ms=5000).begin(60, 10.0)
    assert expiry.saved() == ExpiryRecord(60_000, 15_000, UNIX_MS + 10_000)
    unset = clock(0).begin(60, 10.0)
    assert unset.saved() == ExpiryRecord(60_000, 10_000, 0)


@pytest.mark.parametrize(("unix_ms", "is_set"), [(CLOCK_IS_SET_MS - 1, False), (UNIX_MS, True)])
def test_a_wall_clock_before_2024_is_not_set(unix_ms: float, is_set: bool) -> None:
    assert (clock(unix_ms).begin(60, 0.0).record.unix_ms > 0) == is_set


def test_it_is_over_when_the_machine_says_so() -> None:
    pauses = ProcessPauses()
    times = ExpiryClock(pauses)
    expiry = times.begin(60, 0.0)
    assert not expiry.is_over(59.9)
    assert expiry.is_over(60.0)
    assert expiry.over_at() == 60.0
    pauses.beat(0.0)
    assert pauses.now(50.0) == BEAT_S
    assert expiry.over_at() == 60.0 - 49.0
    assert expiry.is_over(11.0)


@pytest.mark.parametrize(
    ("run_ms", "unix_ms", "left_s"),
    [
        (0, UNIX_MS, 60.0),
        (20_000, UNIX_MS, 40.0),  # the wall clock was set back meanwhile
        (20_000, UNIX_MS + 30_000, 30.0),
        (0, UNIX_MS + 70_000, -10.0),
        (0, UNIX_MS - 70_000, 60.0),  # never more than it had
        (0, 0, 60.0),
        (70_000, 0, -10.0),
    ],
)
def test_after_a_restart_it_has_what_the_further_clock_leaves(
    run_ms: int, unix_ms: float, left_s: float
) -> None:
    expiry = clock(unix_ms, run_ms=run_ms).restored(ExpiryRecord(60_000, 0, UNIX_MS), 0.0)
    assert expiry.over_at() == pytest.approx(left_s)
    assert expiry.is_over(0.0) == (left_s < 0)


def test_one_that_came_before_the_clock_was_set_is_not_judged_by_it() -> None:
    expiry = clock(UNIX_MS).restored(ExpiryRecord(60_000, 0, 0), 0.0)
    assert expiry.over_at() == 60.0


def test_a_step_of_the_wall_clock_is_told_from_its_drift() -> None:
    times = clock()
    assert not times.set_wall_clock(UNIX_MS + 999)
    assert times.set_wall_clock(UNIX_MS) is False
    assert times.set_wall_clock(UNIX_MS + 1000)
    assert times.set_wall_clock(UNIX_MS)


def test_the_run_time_is_saved_at_first_often_and_then_seldom() -> None:
    times = clock(0)
    times.begin(1000, 0.0).saved()
    saved_at: list[float] = []
    while times.due_at < inf:
        now = times.due_at
        assert times.handle_time(now - 0.001) is None
        assert times.handle_time(now) == RunTimeRecord(int(now * 1000))
        saved_at.append(now)
    assert saved_at[:8] == [SAVE_FIRST_S, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 64.0 + SAVE_RUN_TIME_S]
    assert saved_at[-2] < 1000 <= saved_at[-1], "a last time when nothing waits any more"


def test_it_is_not_saved_for_what_the_wall_clock_tells() -> None:
    times = clock()
    times.begin(60, 0.0).saved()
    assert times.due_at == inf


def test_it_is_saved_for_that_as_well_where_the_wall_clock_is_not_set_yet() -> None:
    times = clock(0)
    times.restored(ExpiryRecord(60_000, 0, UNIX_MS), 0.0)
    assert times.handle_time(times.due_at) == RunTimeRecord(1000)
    times.set_wall_clock(UNIX_MS)
    assert times.handle_time(times.due_at) is None
    assert times.due_at == inf


def test_a_pause_is_saved_at_once() -> None:
    times = clock(0)
    times.paused()
    assert times.due_at == inf
    times.begin(600, 100.0).saved()
    assert times.due_at > 100.0
    times.paused()
    assert times.due_at == 100.0
