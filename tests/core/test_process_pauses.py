"""The clock of the core leaves out the time in which the process did not run."""

from __future__ import annotations

from math import inf

import pytest

from gateway.core.process_pauses import BEAT_S, KNOWN_MAX, LATE_S, ProcessPauses


def beating(since: float = 100.0) -> ProcessPauses:
    clock = ProcessPauses()
    clock.beat(since)
    return clock


def test_a_loop_that_is_on_time_leaves_nothing_out() -> None:
    clock = beating()
    for second in range(101, 200):
        clock.beat(second + LATE_S / 2)
    assert clock.now(200.0) == 200.0
    assert (clock.count, clock.seconds) == (0, 0.0)


def test_what_the_beat_is_late_by_is_left_out_whoever_asks_first() -> None:
    clock = beating()
    assert clock.now(120.0) == 100.0 + BEAT_S
    assert clock.now(120.5) == 100.5 + BEAT_S
    clock.beat(120.5)
    assert clock.now(121.0) == 102.0
    assert (clock.count, clock.seconds) == (1, 19.0)


def test_before_the_first_beat_and_after_the_last_nothing_is_left_out() -> None:
    clock = ProcessPauses()
    assert clock.now(5000.0) == 5000.0
    clock.beat(5000.0)
    clock.rest()
    assert clock.now(9000.0) == 9000.0
    assert clock.overdue_at == inf


@pytest.mark.guarantee("10")
def test_a_loop_that_is_always_late_has_slow_timers_that_end() -> None:
    clock, at = beating(0.0), 0.0
    while clock.now(at) < 60.0:
        at += BEAT_S + 0.5
        clock.beat(at)
    assert at == pytest.approx(90.0, abs=2.0)


def test_a_machine_that_was_suspended_is_noticed_and_nothing_left_out() -> None:
    clock = beating()
    for seconds in (7.0, 7.0 + LATE_S / 2, 3607.0, 3607.0):
        clock.suspended(seconds)
    assert (clock.count, clock.seconds) == (1, 3600.0)
    assert clock.now(101.0) == 101.0


def test_times_of_the_core_are_times_of_the_machine_and_back() -> None:
    clock, machine_at = beating(0.0), 0.0
    pairs = [(0.0, 0.0)]
    for number in range(1, 10):
        machine_at += BEAT_S + 10.0 * number
        clock.beat(machine_at)
        pairs.append((clock.now(machine_at), machine_at))
        machine_at += 0.5
        pairs.append((clock.now(machine_at), machine_at))
    for core_at, at in pairs:
        assert clock.machine_time(core_at) == pytest.approx(at)
        assert clock.core_time(at) == pytest.approx(core_at)
    # In a pause the time of the core is that of its end.
    assert clock.core_time(5.0) == pytest.approx(pairs[1][0])


def test_of_very_many_the_first_are_not_known_by_one_any_more() -> None:
    clock, machine_at = beating(0.0), 0.0
    for _ in range(KNOWN_MAX + 10):
        machine_at += BEAT_S + 1.0
        clock.beat(machine_at)
    assert clock.machine_time(clock.now(machine_at)) == machine_at
    assert clock.machine_time(0.0) == 10.0
    assert clock.core_time(10.0) == 0.0


def test_without_any_both_times_are_the_same() -> None:
    assert ProcessPauses().core_time(7.0) == ProcessPauses().machine_time(7.0) == 7.0
