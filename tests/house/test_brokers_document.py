"""docs/brokers.md has the brokers and the features of the suite, and what each broker needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.brokers.adapters import BROKERS, MODELS, NOT_HAD, REAL
from tests.brokers.broker import Broker
from tests.brokers.document import DOCUMENT, columns_in, rows_in, text_of
from tests.brokers.features import FEATURES
from tests.brokers.results import Cell, Outcome

REPOSITORY = Path(__file__).parents[2]


def document() -> str:
    return DOCUMENT.read_text(encoding="utf-8")


def in_one_line() -> str:
    return " ".join(document().split())


def test_each_broker_is_a_column() -> None:
    assert columns_in(document()) == [each.title for each in (*REAL, *MODELS)]


def test_each_feature_is_a_row_of_both_tables() -> None:
    assert rows_in(document()) == [list(FEATURES.values())] * 2


def test_each_feature_is_a_test_of_the_suite_and_each_test_a_feature() -> None:
    suite = (REPOSITORY / "tests" / "brokers" / "test_brokers.py").read_text(encoding="utf-8")
    assert re.findall(r"^(?:async )?def test_(\w+)\(", suite, re.MULTILINE) == list(FEATURES)


@pytest.mark.parametrize("broker", BROKERS, ids=lambda each: each.name)
def test_what_is_known_of_a_broker_is_there(broker: type[Broker]) -> None:
    text = in_one_line()
    assert f"**{broker.title}**" in text
    known = [*broker.keys, *broker.keys.values(), *broker.deviations.values()]
    assert [each for each in known if each not in text] == []


def test_what_is_said_of_a_broker_is_of_features_of_the_suite() -> None:
    for broker in BROKERS:
        assert {*broker.lacks, *broker.deviations} <= FEATURES.keys(), broker.title


def test_what_was_looked_for_is_there() -> None:
    text = in_one_line()
    assert [each for pair in NOT_HAD.items() for each in pair if each not in text] == []


def test_a_cell_that_no_run_has_is_not_run() -> None:
    text = text_of({"mochi": {"will": Cell(Outcome.YES.value)}})
    will = next(line for line in text.splitlines() if line.startswith(f"| {FEATURES['will']} "))
    mochi = columns_in(text).index("Mochi MQTT")
    found = [each.strip() for each in will.split("|")[2:-1]]
    assert found.pop(mochi) == "yes"
    assert set(found) == {"not run"}
