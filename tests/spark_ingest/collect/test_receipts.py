"""What gateways are told is safe: which ranges, how often, and on which topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ingest.collect import receipts
from spark_ingest.collect.receipts import REPEAT_S, Receipt, ReceiptOptions, Receipts, ranges_of
from spark_ingest.segments.sequences import Encoded, Sequences

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "receipts.jsonl"
EVERY_S = 5.0


def ids(*numbers: int, life: str = "gh/7") -> dict[str, Encoded]:
    return {life: Sequences(numbers).encoded()}


def told(receipt: Receipt) -> dict[str, list[list[int]]]:
    epochs: dict[str, list[list[int]]] = json.loads(receipt.payload)["epochs"]
    return epochs


def receipts_of(**options: Any) -> Receipts:
    return Receipts(ReceiptOptions(collector="c1", every_s=EVERY_S, **options))


@given(st.sets(st.integers(0, 5000)))
def test_ranges_are_the_numbers_of_the_bits(numbers: set[int]) -> None:
    ranges = list(ranges_of(Sequences(numbers).encoded()))
    assert {each for first, last in ranges for each in range(first, last + 1)} == numbers
    assert len(ranges) <= len(numbers)


@pytest.mark.parametrize("line", GOLDEN.read_text().splitlines())
def test_receipts_are_as_gateways_read_them(line: str) -> None:
    row = json.loads(line)
    found = Receipts(ReceiptOptions(collector=row["collector"]))
    for epoch, first, last in row["ranges"]:
        found.add(ids(*range(first, last + 1), life=f"{row['gw']}/{epoch}"), 0.0)
    assert found.due(0.0) == [Receipt(row["topic"], row["payload"].encode())]


def test_a_gateway_is_told_at_once_and_then_as_often_as_the_rules_say() -> None:
    found = receipts_of()
    assert (found.due_at(), found.due(100.0)) == (float("inf"), [])
    found.add(ids(0, 1), 100.0)
    assert [told(each) for each in found.due(100.0)] == [{"7": [[0, 1]]}]
    found.add(ids(2), 101.0)
    assert found.due_at() == 100.0 + EVERY_S
    assert found.due(104.0) == []
    found.add(ids(5), 104.0)
    assert [told(each) for each in found.due(105.0)] == [{"7": [[0, 2], [5, 5]]}]
    assert found.sent_count == 2


def test_what_is_told_is_told_again_to_say_that_we_live_and_after_each_connection() -> None:
    found = receipts_of()
    found.add(ids(0), 0.0)
    (first,) = found.due(0.0)
    assert found.due_at() == REPEAT_S
    assert found.due(REPEAT_S) == [first]
    found.repeat(REPEAT_S + 1)
    assert found.due(REPEAT_S + 1) == [first]
    nothing = receipts_of()
    nothing.repeat(0.0)
    assert nothing.due_at() == float("inf")


def test_lives_and_gateways_are_told_apart() -> None:
    found = receipts_of()
    found.add(ids(0) | ids(3, life="gh/8") | ids(9, life="barn/7"), 0.0)
    assert {each.topic: told(each) for each in found.due(0.0)} == {
        "tidegate/ingest/gh/ack/c1": {"7": [[0, 0]], "8": [[3, 3]]},
        "tidegate/ingest/barn/ack/c1": {"7": [[9, 9]]},
    }


def test_each_gateway_has_its_own_time() -> None:
    found = receipts_of()
    found.add(ids(0, life="barn/7"), 0.0)
    found.due(0.0)
    found.add(ids(0), 3.0)
    assert [each.topic.split("/")[2] for each in found.due(3.0)] == ["gh"]
    assert found.due_at() == REPEAT_S


def test_more_ranges_than_one_receipt_takes_go_out_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receipts, "RANGES_MAX", 3)
    found = receipts_of()
    found.add(ids(*range(0, 14, 2)), 0.0)
    parts = [told(each)["7"] for each in found.due(0.0)]
    assert parts == [[[0, 0], [2, 2], [4, 4]], [[6, 6]], [[8, 8], [10, 10], [12, 12]]]
    found.add(ids(14), 0.0)
    assert [told(each)["7"] for each in found.due(EVERY_S)] == [[[10, 10], [12, 12], [14, 14]]]
    found.add(ids(1), 0.0)
    parts = [told(each)["7"] for each in found.due(2 * EVERY_S)]
    assert parts == [[[1, 1]], [[10, 10], [12, 12], [14, 14]]]


def test_the_gateway_that_was_heard_the_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receipts, "GATEWAYS_MAX", 2)
    found = receipts_of()
    for name in ("a", "b", "a", "c"):
        found.add(ids(0, life=f"{name}/7"), 0.0)
    assert [each.topic.split("/")[2] for each in found.due(0.0)] == ["a", "c"]
    assert found.cleared() == [
        Receipt("tidegate/ingest/a/ack/c1", b""),
        Receipt("tidegate/ingest/c/ack/c1", b""),
    ]


@pytest.mark.parametrize("name", ["a/b", "+", "#", "", "a\0b", "x" * 65, "a\nb"])
def test_what_is_no_level_of_a_topic_is_no_gateway(name: str) -> None:
    found = receipts_of()
    found.add(ids(0, life=f"{name}/7"), 0.0)
    assert found.due(0.0) == []


def test_without_the_option_nothing_is_told() -> None:
    found = receipts_of(is_on=False)
    found.add(ids(0), 0.0)
    assert found.due(0.0) == []
    assert not found.is_one("tidegate/ingest/gh/ack/c1")


@pytest.mark.parametrize(
    ("topic", "is_one"),
    [
        ("tidegate/ingest/gh/ack/c1", True),
        ("tidegate/ingest/gh/ack/other", True),
        ("tidegate/ingest/gh/acknowledged", False),
        ("tidegate/ingest", False),
        ("tidegate/ingest//ack/c1", False),
        ("farm/ack/c1", False),
    ],
)
def test_receipts_are_known_by_their_topics(topic: str, is_one: bool) -> None:
    assert receipts_of().is_one(topic) is is_one
