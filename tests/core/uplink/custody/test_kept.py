"""Runs of kept readings: joined where they are neighbours, cut where a receipt ends a part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.uplink.custody import kept
from gateway.core.uplink.custody.kept import JOIN_S, KeptReadings, Run

EPOCH = 7


def one(sequence: int, at: float = 0.0, *, record: int | None = None, again: int = 0) -> Run:
    return Run(EPOCH, sequence, sequence + 100 if record is None else record, 1, at, again)


def filled(*sequences: int) -> KeptReadings:
    readings = KeptReadings()
    for sequence in sequences:
        assert readings.add(one(sequence))
    return readings


def spans(runs: KeptReadings | list[Run]) -> list[tuple[int, int, int]]:
    return [(run.first, run.end, run.record) for run in runs]


def test_neighbours_are_one_run_that_the_broker_took_about_then() -> None:
    readings = filled(0, 1, 2)
    assert spans(readings) == [(0, 3, 100)]
    readings.add(one(3, JOIN_S + 1))
    assert (readings.count, readings.runs) == (4, 2)


def test_a_run_that_goes_on_does_not_stay_young() -> None:
    """Or what comes without a pause would never be missed."""
    readings = KeptReadings()
    for second in range(100):
        readings.add(one(second, float(second)))
    oldest = next(iter(readings))
    assert (oldest.since, oldest.taken_at) == (0.0, JOIN_S)
    assert readings.runs == 10


@pytest.mark.parametrize(
    "other", [one(2), one(1, record=300), one(1, again=1)], ids=["hole", "elsewhere", "again"]
)
def test_what_is_no_neighbour_is_a_run_of_its_own(other: Run) -> None:
    readings = filled(0)
    assert readings.add(other)
    assert readings.runs == 2


def test_what_is_kept_is_not_kept_twice() -> None:
    readings = filled(0, 1, 2)
    assert not readings.add(one(1, record=500))
    assert readings.count == 3


def test_a_run_is_cut_where_a_part_of_it_ends() -> None:
    readings = filled(*range(10))
    assert spans(readings.take(EPOCH, 3, 5)) == [(3, 5, 103)]
    assert spans(readings) == [(0, 3, 100), (5, 10, 105)]
    assert (EPOCH, 3) not in readings
    assert (EPOCH, 5) in readings
    assert spans(readings.take(EPOCH, 0, 100)) == [(0, 3, 100), (5, 10, 105)]
    assert (readings.count, readings.runs, list(readings)) == (0, 0, [])


def test_nothing_is_taken_of_another_epoch_or_between_runs() -> None:
    readings = filled(0, 1, 5)
    assert readings.take(EPOCH + 1, 0, 10) == []
    assert readings.take(EPOCH, 2, 5) == []
    assert readings.count == 3


def test_when_there_are_too_many_runs_neighbours_are_joined_whatever_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept, "RUNS_MAX", 3)
    readings = KeptReadings()
    for sequence in range(3):
        readings.add(one(sequence, sequence * (JOIN_S + 1)))
    assert readings.runs == 3
    assert readings.add(one(10))
    assert spans(readings) == [(0, 3, 100), (10, 11, 110)]
    assert next(iter(readings)).taken_at == 2 * (JOIN_S + 1), "the time of the last"
    assert readings.add(one(20))
    assert not readings.add(one(30)), "there is no room, and nothing can be joined"
    assert readings.count == 5


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(1, 10)), max_size=40))
def test_runs_hold_what_a_set_would(changes: list[tuple[bool, int, int]]) -> None:
    readings, plain = KeptReadings(), set[int]()
    for adds, first, count in changes:
        if adds:
            assert readings.add(one(first)) is (first not in plain)
            plain.add(first)
        else:
            taken = readings.take(EPOCH, first, first + count)
            numbers = {each for run in taken for each in range(run.first, run.end)}
            assert numbers == plain & set(range(first, first + count))
            assert all(run.record == run.first + 100 for run in taken)
            plain -= numbers
    assert [each for run in readings for each in range(run.first, run.end)] == sorted(plain)
    assert (readings.count, readings.runs) == (len(plain), len(list(readings)))
