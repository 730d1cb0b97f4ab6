"""When the gateway could not take a reading that came now, and so must not be found."""

from __future__ import annotations

import pytest

from gateway.admin.conditions import serving_problem
from gateway.admin.part_numbers import Condition, JournalNumbers

UNUSED = "the broker is away, and no reading is stored: journal.acknowledge"
FULL = "the broker is away, and the journal is full"
FAILED = "the broker is away, and the journal cannot be written"


@pytest.mark.parametrize("condition", Condition)
@pytest.mark.parametrize("is_journal_used", [True, False])
def test_with_the_broker_there_it_can(condition: Condition, is_journal_used: bool) -> None:
    numbers = JournalNumbers(condition=condition)
    told = serving_problem(
        numbers, is_connected=True, is_journal_used=is_journal_used, gives_way=False
    )
    assert told is None


@pytest.mark.parametrize(
    ("condition", "is_journal_used", "gives_way", "told"),
    [
        (Condition.OK, True, False, None),
        (Condition.DEGRADED, True, False, None),
        (Condition.FULL, True, False, FULL),
        (Condition.FULL, True, True, None),
        (Condition.FAILED, True, True, FAILED),
        (Condition.OK, False, False, UNUSED),
    ],
)
def test_without_it_the_journal_must_take_it(
    condition: Condition, is_journal_used: bool, gives_way: bool, told: str | None
) -> None:
    numbers = JournalNumbers(condition=condition)
    assert told == serving_problem(
        numbers, is_connected=False, is_journal_used=is_journal_used, gives_way=gives_way
    )
