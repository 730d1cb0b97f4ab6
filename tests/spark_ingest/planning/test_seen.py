"""What a query has had: a set, however it is kept, and never more than that."""

from __future__ import annotations

import json
from collections import Counter
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from spark_ingest.planning import seen as module
from spark_ingest.planning.offset import Offset
from spark_ingest.planning.seen import Seen, SeenOfEpoch
from spark_ingest.segments.sequences import BLOCK_BITS, Encoded, Identities, Sequences

# So that blocks fill up and runs of them join.
NEAR = st.integers(0, 3) | st.integers(BLOCK_BITS - 3, BLOCK_BITS + 3) | st.integers(0, 10**12)
SETS = st.lists(
    st.frozensets(NEAR) | st.builds(lambda n: frozenset(range(n * 700)), st.integers(0, 6))
)


def numbers_of(encoded: list[list[int | str]]) -> set[int]:
    return set(Sequences.decoded(encoded))


def ids(gateway: str, epoch: int, *numbers: int) -> dict[str, list[list[int | str]]]:
    identities = Identities()
    for number in numbers:
        identities.add(gateway, epoch, number)
    return identities.encoded()


@given(SETS)
def test_it_tells_what_was_there_before_as_a_set_does(sets: list[frozenset[int]]) -> None:
    seen, plain = SeenOfEpoch(), set[int]()
    for each in sets:
        assert numbers_of(seen.add(Sequences(each).encoded())) == plain & each
        plain |= each
        assert len(seen) == len(plain)


@given(SETS)
def test_holes_are_what_is_missing_below_the_highest(sets: list[frozenset[int]]) -> None:
    seen = SeenOfEpoch()
    for each in sets:
        seen.add(Sequences(each).encoded())
    there = sorted(frozenset().union(*sets))
    expected, at = [], 0
    for number in there:
        if number > at:
            expected.append((at, number - 1))
        at = number + 1
    assert seen.holes() == expected


@given(SETS)
def test_an_offset_comes_back_from_a_checkpoint_as_the_same_text(
    sets: list[frozenset[int]],
) -> None:
    offset = Offset({"c2": 3, "c1": 7})
    for number, each in enumerate(sets):
        offset.seen.add(ids(f"gw/{number % 2}", 1, *each))
    text = json.dumps(offset.to_json())
    assert json.dumps(Offset.from_json(json.loads(text)).to_json()) == text


def test_readings_without_holes_take_two_numbers_however_many_they_are() -> None:
    seen = Seen()
    for first in range(0, 1_000_000, 10_000):
        assert seen.add(ids("gh", 1, *range(first, first + 10_000))) == {}
    assert len(json.dumps(seen.encoded())) < 200
    assert list(seen.add(ids("gh", 1, 4_711))) == [("gh", 1)]


def test_a_hole_for_ever_costs_one_block() -> None:
    seen = Seen()
    seen.add(ids("gh", 1, *range(17), *range(18, 500_000)))
    assert len(json.dumps(seen.encoded())) < 2 * BLOCK_BITS // 4 + 200


def test_lives_and_gateways_are_kept_apart() -> None:
    seen = Seen()
    seen.add(ids("gh", 1, 5))
    assert seen.add(ids("gh", 2, 5)) == {}
    assert seen.add(ids("ox", 1, 5)) == {}
    assert seen.add(ids("gh", 1, 5, 6)) == {("gh", 1): [[0, "20"]]}


def test_beyond_the_limit_the_life_that_is_longest_silent_is_forgotten() -> None:
    with patch.object(module, "EPOCHS_MAX", 2):
        seen = Seen()
        for gateway in ("a", "b", "a", "c"):
            seen.add(ids(gateway, 1, 0))
        assert [life for life, _ in seen.by_epoch] == ["a", "c"]
        assert seen.forgotten == 1
        assert seen.add(ids("b", 1, 0)) == {}, "forgotten is not seen"


def test_beyond_the_limit_the_gateway_with_the_most_lives_gives_way() -> None:
    with patch.object(module, "EPOCHS_MAX", 4):
        seen = Seen()
        for gateway, epoch in (("away", 1), ("away", 2), ("a", 1), ("a", 2), ("a", 3), ("a", 4)):
            seen.add(ids(gateway, epoch, 0))
        assert [*seen.by_epoch] == [("away", 1), ("away", 2), ("a", 3), ("a", 4)]
        assert seen.forgotten == 2


def test_a_thousand_gateways_that_restart_leave_one_that_is_away_what_it_is_known_by() -> None:
    """Each of 50 times, with a hole each; the offset goes through the checkpoint in between."""
    offset = Offset()
    for epoch in range(1, 6):
        offset.seen.add(ids("away", epoch, *range(500)))
    for epoch in range(1, 51):
        everyone: dict[str, Encoded] = {}
        for number in range(999):
            everyone |= ids(f"gateway-{number}", epoch, *range(7), 9)
        assert offset.seen.add(everyone) == {}
        if epoch % 10 == 0:
            offset = Offset.from_json(json.loads(json.dumps(offset.to_json())))
    again: dict[str, Encoded] = {}
    for epoch in range(1, 6):
        again |= ids("away", epoch, *range(500))
    repeated = offset.seen.add(again)
    assert {key: len(Sequences.decoded(each)) for key, each in repeated.items()} == {
        ("away", epoch): 500 for epoch in range(1, 6)
    }
    assert len(offset.seen.by_epoch) == module.EPOCHS_MAX
    lives = Counter(gateway for gateway, _ in offset.seen.by_epoch)
    assert min(lives[f"gateway-{number}"] for number in range(999)) >= 10
    assert offset.seen.forgotten == 999 * 50 + 5 - module.EPOCHS_MAX
    assert len(json.dumps(offset.to_json())) < 1_000_000


def test_beyond_the_limit_the_lowest_block_with_holes_is_forgotten_and_nothing_is_lost() -> None:
    with patch.object(module, "BLOCKS_MAX", 2):
        seen = Seen()
        seen.add(ids("gh", 1, 0, BLOCK_BITS * 5, BLOCK_BITS * 9))
        assert seen.forgotten == 1
        assert seen.add(ids("gh", 1, 0)) == {}
        assert seen.add(ids("gh", 1, BLOCK_BITS * 9)) == {("gh", 1): [[9, "1"]]}
