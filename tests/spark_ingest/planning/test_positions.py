"""Which records of a topic are repeats."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_ingest.planning.positions import Tagged, repeats
from spark_ingest.planning.seen import Seen


def batch(*records: tuple[int, int, int], gateway: str = "gh", epoch: int = 1) -> list[Tagged]:
    return [(partition, offset, gateway, epoch, seq) for partition, offset, seq in records]


def test_of_one_reading_the_first_by_partition_and_offset_stays() -> None:
    records = batch((1, 0, 7), (0, 5, 7), (0, 4, 7), (0, 6, 8))
    assert sorted(repeats(records, Seen())) == [(0, 5), (1, 0)]


def test_what_a_former_batch_had_is_left_out_in_all_its_copies() -> None:
    seen = Seen()
    assert repeats(batch((0, 0, 1), (0, 1, 2)), seen) == []
    assert sorted(repeats(batch((0, 2, 2), (1, 0, 2), (0, 3, 3)), seen)) == [(0, 2), (1, 0)]


def test_gateways_and_their_lives_are_apart() -> None:
    seen = Seen()
    assert repeats(batch((0, 0, 1)), seen) == []
    assert repeats(batch((0, 1, 1), epoch=2), seen) == []
    assert repeats(batch((0, 2, 1), gateway="gh/1"), seen) == []
    assert repeats(batch((0, 3, 1), epoch=2), seen) == [(0, 3)]


@given(st.lists(st.lists(st.integers(0, 3000), max_size=40), max_size=6), st.randoms())
def test_of_any_batches_each_reading_stays_once_and_in_any_order_the_same_does(
    batches: list[list[int]], dice: object
) -> None:
    seen, again = Seen(), Seen()
    stayed: list[int] = []
    for number, sequences in enumerate(batches):
        records = batch(*((number % 2, at, seq) for at, seq in enumerate(sequences)))
        left_out = set(repeats(records, seen))
        stayed += [record[4] for record in records if record[:2] not in left_out]
        shuffled = [*records]
        dice.shuffle(shuffled)  # type: ignore[attr-defined]
        assert set(repeats(shuffled, again)) == left_out
    assert sorted(stayed) == sorted({seq for each in batches for seq in each})
    assert seen.encoded() == again.encoded()
