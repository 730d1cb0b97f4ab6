"""What a batch has: every segment once, in the order of time, and every reading once."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ingest.planning.offset import Offset, OffsetError
from spark_ingest.planning.plan import Limits, Planned, end_of_batch, planned
from spark_ingest.segments.footer import Footer
from spark_ingest.segments.sequences import Identities, sequences_by_epoch


@dataclass
class Shelves:
    """Segments in memory: when each began, and the sequences of gateway gh in it."""

    segments: dict[str, list[tuple[int, list[int]]]]
    octets: int = 100
    begins: dict[str, int] = field(default_factory=dict)  # the first number, where it is not 0

    def collectors(self) -> list[str]:
        return sorted(self.segments)

    def next_of(self, collector: str, number: int | None, end: int | None) -> int | None:
        first = self.begins.get(collector, 0)
        number = first if number is None else number
        return number if number - first < len(self.segments[collector]) else None

    def footer(self, collector: str, number: int) -> Footer:
        first_us, sequences = self.segments[collector][number - self.begins.get(collector, 0)]
        identities = Identities()
        for sequence in sequences:
            identities.add("gh", 1, sequence)
        return Footer(
            collector=collector, number=number, rows=len(sequences), messages=len(sequences),
            repeated=0, quarantined={}, first_us=first_us, last_us=first_us,
            ids=identities.encoded(), schemas={},
        )  # fmt: skip

    def bytes_of(self, collector: str, number: int) -> int:
        return self.octets

    def heads(self) -> dict[str, int]:
        return {
            name: self.begins.get(name, 0) + len(each)
            for name, each in self.segments.items()
            if each
        }


def names(plan: list[Planned]) -> list[str]:
    return [f"{each.collector}/{each.number}" for each in plan]


def left_out(plan: list[Planned]) -> dict[str, set[int]]:
    return {
        f"{each.collector}/{each.number}": {
            *sequences_by_epoch({"gh/1": each.left_out["gh", 1]})["gh", 1]
        }
        for each in plan
        if each.left_out
    }


def batches(shelves: Shelves, limits: Limits) -> Iterator[list[Planned]]:
    """Each with its offsets from text, as a checkpoint has them."""
    start = Offset().to_json()
    while True:
        end = end_of_batch(Offset.from_json(start), shelves, limits, None).to_json()
        if end == start:
            return
        end = json.loads(json.dumps(end))
        yield planned(Offset.from_json(start), Offset.from_json(end), shelves)
        start = end


def kept(plan: list[Planned], shelves: Shelves) -> Counter[int]:
    gone = left_out(plan)
    found: Counter[int] = Counter()
    for each in plan:
        _, sequences = shelves.segments[each.collector][each.number]
        repeated = gone.get(f"{each.collector}/{each.number}", set())
        found.update(number for number in sequences if number not in repeated)
    return found


def test_segments_come_in_the_order_of_their_first_message() -> None:
    shelves = Shelves({"c1": [(10, [0]), (40, [3])], "c2": [(20, [1]), (30, [2])]})
    (plan,) = batches(shelves, Limits())
    assert names(plan) == ["c1/0", "c2/0", "c2/1", "c1/1"]


def test_a_backlog_of_one_collector_does_not_run_ahead_of_the_other() -> None:
    shelves = Shelves({
        "c1": [(hour, [hour]) for hour in range(0, 20, 2)],
        "c2": [(hour, [hour]) for hour in range(1, 20, 2)],
    })  # fmt: skip
    seen = [names(plan)[-1] for plan in batches(shelves, Limits(segments=4))]
    assert seen == ["c2/1", "c2/3", "c2/5", "c2/7", "c2/9"]


def test_the_later_copy_of_a_reading_is_left_out_also_in_a_later_batch() -> None:
    shelves = Shelves({"c1": [(1, [0, 1]), (3, [4, 0])], "c2": [(2, [1, 2]), (9, [4, 5])]})
    (plan,) = batches(shelves, Limits())
    assert left_out(plan) == {"c2/0": {1}, "c1/1": {0}, "c2/1": {4}}
    one_by_one = [left_out(plan) for plan in batches(shelves, Limits(segments=1))]
    assert one_by_one == [{}, {"c2/0": {1}}, {"c1/1": {0}}, {"c2/1": {4}}]


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        (Limits(rows=5), [2, 2, 1]),
        (Limits(rows=1), [1, 1, 1, 1, 1]),
        (Limits(segments=3), [3, 2]),
        (Limits(bytes=200), [2, 2, 1]),
        (Limits(bytes=1), [1, 1, 1, 1, 1]),
        (Limits(rows=8, segments=3, bytes=10_000), [3, 2]),
        (Limits(), [5]),
    ],
)
def test_a_batch_stays_within_its_limits_but_has_one_segment(
    limits: Limits, sizes: list[int]
) -> None:
    shelves = Shelves({"c1": [(n, [2 * n, 2 * n + 1]) for n in range(5)]})
    assert [len(plan) for plan in batches(shelves, limits)] == sizes


def test_nothing_new_is_the_same_offset() -> None:
    shelves = Shelves({"c1": [(1, [0])], "c2": []})
    end = end_of_batch(Offset(), shelves, Limits(), None).to_json()
    again = end_of_batch(Offset.from_json(end), shelves, Limits(), None).to_json()
    assert json.dumps(again) == json.dumps(end)


def test_what_came_after_the_end_was_set_is_not_in_it() -> None:
    shelves = Shelves({"c1": [(1, [0])]})
    ends = shelves.heads()
    shelves.segments |= {"c1": [(1, [0]), (2, [1])], "c2": [(0, [2])]}
    assert end_of_batch(Offset(), shelves, Limits(), ends).next == {"c1": 1}


def test_a_batch_is_the_same_when_it_is_repeated_with_more_there() -> None:
    shelves = Shelves({"c1": [(5, [0, 1])], "c2": [(1, [1])]})
    end = end_of_batch(Offset(), shelves, Limits(), None)
    before = planned(Offset(), end, shelves)
    shelves.segments["c2"].append((2, [0]))
    shelves.segments["c0"] = [(0, [7])]
    assert planned(Offset(), end, shelves) == before


def test_a_collector_whose_first_segments_were_removed_is_read_from_what_there_is() -> None:
    shelves = Shelves({"c1": [(1, [0])]}, begins={"c1": 42})
    (plan,) = batches(shelves, Limits())
    assert names(plan) == ["c1/42"]


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 60))
def test_every_reading_is_kept_once_however_it_was_repeated_and_cut(
    seed: int, collectors: int, rows: int
) -> None:
    dice = random.Random(seed)
    shelves = Shelves({f"c{n}": [] for n in range(collectors)})
    written: set[int] = set()
    for moment in range(dice.randrange(1, 30)):
        sequences = sorted({dice.randrange(200) for _ in range(dice.randrange(1, 20))})
        written.update(sequences)
        shelves.segments[f"c{dice.randrange(collectors)}"].append((moment, sequences))
    found: Counter[int] = Counter()
    for plan in batches(shelves, Limits(rows=rows)):
        found.update(kept(plan, shelves))
    assert found == dict.fromkeys(written, 1)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({}, "version None"),
        ({"v": 2}, "version 2"),
        ({"v": 1}, "damaged offset: KeyError"),
        ({"v": 1, "next": 3, "seen": []}, "damaged offset"),
        ({"v": 1, "next": {}, "seen": [["gh", 1]]}, "damaged offset"),
        ({"v": 1, "next": {}, "seen": [["gh", 1, [], [[0, "xyz"]]]]}, "damaged offset"),
    ],
)
def test_an_offset_of_others_is_an_error_that_says_so(given_: dict[str, object], said: str) -> None:
    with pytest.raises(OffsetError, match=said):
        Offset.from_json(given_)
