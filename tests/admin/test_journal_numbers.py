"""The journal in numbers: its rates, when it will be empty, and what is wrong with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.admin.conditions import journal_doubt, journal_failure, state_doubt
from gateway.admin.metrics.throughput import Rates, Throughput
from gateway.admin.part_numbers import Condition, JournalNumbers, StateNumbers
from tests.admin.example import JOURNAL, STATE


def test_there_is_no_rate_before_two_looks() -> None:
    throughput = Throughput()
    assert throughput.rates == Rates(None, None)
    throughput.note(10, 5, now=100.0)
    assert throughput.rates == Rates(None, None)


def test_rates_are_those_of_the_last_minute() -> None:
    throughput = Throughput()
    for second in range(200):
        slow = min(second, 100)
        throughput.note(2 * slow + 50 * (second - slow), 3 * second, now=1000.0 + second)
    assert throughput.rates == Rates(50.0, 3.0)


def test_a_look_at_once_after_another_changes_nothing() -> None:
    throughput = Throughput()
    for thousandth in range(10_000):
        throughput.note(thousandth, 0, now=thousandth / 1000)
    assert throughput.rates == Rates(1000.0, 0.0)


def test_after_a_gap_longer_than_the_window_there_is_no_rate_rather_than_a_wrong_one() -> None:
    throughput = Throughput()
    throughput.note(0, 0, now=0.0)
    throughput.note(100, 0, now=1.0)
    throughput.note(200, 0, now=5000.0)
    assert throughput.rates == Rates(None, None)


@pytest.mark.parametrize(
    ("depth", "in_per_s", "out_per_s", "drain_s"),
    [
        (0, None, None, 0.0),
        (100, None, None, None),
        (100, 5.0, 5.0, None),
        (100, 6.0, 5.0, None),
        (100, 5.0, 15.0, 10.0),
        (100, 0.0, 4.0, 25.0),
    ],
)
def test_the_journal_drains_at_what_goes_out_more_than_in(
    depth: int, in_per_s: float | None, out_per_s: float | None, drain_s: float | None
) -> None:
    numbers = JournalNumbers(depth=depth, in_per_s=in_per_s, out_per_s=out_per_s)
    assert numbers.drain_s == drain_s


def test_only_a_journal_that_cannot_be_written_fails() -> None:
    found = {
        condition: journal_failure(replace(JOURNAL, condition=condition)) for condition in Condition
    }
    assert [condition for condition, reason in found.items() if reason] == [Condition.FAILED]
    assert found[Condition.FAILED] == (
        "the journal cannot be written (No space left on device): readings are refused while the "
        "broker is away; the log says more, `tidegate doctor --disk` measures the disk"
    )


def test_a_journal_that_is_full_or_goes_on_elsewhere_is_in_doubt() -> None:
    found = {
        condition: journal_doubt(replace(JOURNAL, condition=condition, error=None))
        for condition in Condition
    }
    assert found == {
        Condition.OK: None,
        Condition.DEGRADED: "the journal goes on in a new segment after an error: the log says "
        "more, `tidegate doctor --disk` measures the disk",
        Condition.FULL: "the journal is full, 201 readings wait: bring the broker back, make room "
        "on the disk, or raise journal.size_max",
        Condition.FAILED: None,
    }


def test_sessions_that_cannot_be_saved_are_in_doubt() -> None:
    assert state_doubt(StateNumbers()) is None
    assert state_doubt(STATE) == (
        "sessions cannot be saved (disk I/O error), 301 rows wait: they would not survive a "
        "restart; the log says more, `tidegate doctor --disk` measures the disk"
    )
