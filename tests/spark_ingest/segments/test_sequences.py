"""Sets of sequences: as sets, and as what stands in a footer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ingest.segments.sequences import Encoded, Identities, Sequences, sequences_by_epoch

NUMBERS = st.integers(0, 3000) | st.integers(0, 2**60)


@given(st.lists(NUMBERS))
def test_they_are_a_set(numbers: list[int]) -> None:
    found = Sequences()
    assert [found.add(each) for each in numbers] == [
        each not in numbers[:index] for index, each in enumerate(numbers)
    ]
    assert list(found) == sorted(set(numbers))
    assert len(found) == len(set(numbers))
    assert all(each in found for each in numbers)
    assert max(numbers, default=0) + 1 not in found


@given(st.lists(NUMBERS))
def test_they_come_back_from_json(numbers: list[int]) -> None:
    encoded = json.loads(json.dumps(Sequences(numbers).encoded()))
    assert set(Sequences.decoded(encoded)) == set(numbers)


def test_what_comes_without_holes_takes_a_quarter_of_an_octet_each() -> None:
    encoded = json.dumps(Sequences(range(100_000)).encoded(), separators=(",", ":"))
    assert len(encoded) < 27_000


def test_numbers_far_apart_cost_a_block_each_and_not_what_lies_between() -> None:
    encoded = json.dumps(Sequences([0, 2**60]).encoded())
    assert len(encoded) < 400


@pytest.mark.parametrize(
    "encoded",
    [[[0, "xyz"]], [[0, "0"]], [[0, "1" * 257]], [["0", "1"]], [[-1, "1"]], [[0]], [[0, 1]], [7]],
)
def test_what_is_no_such_set_is_refused(encoded: Encoded) -> None:
    with pytest.raises((ValueError, TypeError)):
        Sequences.decoded(encoded)


def test_readings_are_told_apart_by_gateway_and_epoch() -> None:
    found = Identities()
    assert [found.add(*each) for each in [("gh/1", 1, 5), ("gh", 1, 5), ("gh", 2, 5)]] == [True] * 3
    assert not found.add("gh", 2, 5)
    by_epoch = sequences_by_epoch(found.encoded())
    assert {life: list(each) for life, each in by_epoch.items()} == {
        ("gh/1", 1): [5],
        ("gh", 1): [5],
        ("gh", 2): [5],
    }
