"""The lake as its readers see it: what is lost is told, and what is there is read as it was."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_ingest.payload.record import COLUMNS
from spark_ingest.planning.offset import Offset
from spark_ingest.planning.plan import Limits, end_of_batch, planned
from spark_ingest.planning.reading import DamagedSegmentError, batches_of
from spark_ingest.segments.lake import LakeSegments, SegmentLostError
from spark_ingest.segments.shelf import segment_path
from tests.spark_ingest.examples import delivery, tagged
from tests.support.lakes import write_segments

ONE_EACH = [[delivery(float(n), tagged(n))] for n in range(5)]


def numbers(segments: LakeSegments, start: Offset) -> list[int]:
    end = end_of_batch(start, segments, Limits(), None)
    return [each.number for each in planned(start, end, segments)]


def values_of(lake: Path, columns: Sequence[str] = ("value",)) -> Counter[float]:
    """Of all segments, as a query has them."""
    segments = LakeSegments(lake)
    found: Counter[float] = Counter()
    for each in planned(Offset(), Offset(segments.heads()), segments):
        path = segment_path(lake, each.collector, each.number)
        for batch in batches_of(path, columns, each.left_out):
            found.update(batch["value"].to_pylist())
    return found


def test_repeats_are_left_out_among_other_gateways_lives_and_messages_without_a_number(
    tmp_path: Path,
) -> None:
    """The same numbers of others stay, and so does what has none."""
    first = [delivery(float(n), tagged(n)) for n in range(4)]
    again = [
        delivery(2.0, tagged(2)),  # the only repeats
        delivery(3.0, tagged(3)),
        *(delivery(10.0 + n, tagged(n, gw="gh2")) for n in range(4)),
        *(delivery(20.0 + n, tagged(n, epoch=2)) for n in range(4)),
        *(delivery(30.0, []) for _ in range(3)),
        delivery(4.0, tagged(4)),
    ]
    write_segments(tmp_path, "c1", first)
    write_segments(tmp_path, "c2", again)
    expected = [*range(5), *range(10, 14), *range(20, 24), 30, 30, 30]
    assert values_of(tmp_path) == Counter(map(float, expected))


def test_new_segments_are_found_in_folders_that_were_looked_at(tmp_path: Path) -> None:
    write_segments(tmp_path, "c1", *ONE_EACH[:2])
    segments = LakeSegments(tmp_path)
    assert segments.heads() == {"c1": 2}
    write_segments(tmp_path, "c1", *ONE_EACH[2:])
    write_segments(tmp_path, "c2", ONE_EACH[0])
    assert segments.heads() == {"c1": 5, "c2": 1}


def test_a_folder_that_has_not_changed_for_long_is_not_listed_again(tmp_path: Path) -> None:
    write_segments(tmp_path, "c1", *ONE_EACH)
    folder = segment_path(tmp_path, "c1", 0).parent
    long_ago = time.time_ns() - 3_600_000_000_000
    segments = LakeSegments(tmp_path)
    os.utime(folder, ns=(long_ago, long_ago))
    assert segments.heads() == {"c1": 5}
    segment_path(tmp_path, "c1", 4).unlink()
    os.utime(folder, ns=(long_ago, long_ago))
    assert segments.heads() == {"c1": 5}, "from memory"
    os.utime(folder)
    assert segments.heads() == {"c1": 4}


@pytest.mark.parametrize(
    ("gone", "said"), [([2], "2 to 2 are gone"), ([1, 2, 3], "1 to 3 are gone")]
)
def test_a_segment_that_is_gone_ends_the_query_and_says_where_and_what_to_do(
    tmp_path: Path, gone: list[int], said: str
) -> None:
    write_segments(tmp_path, "c1", *ONE_EACH)
    for number in gone:
        segment_path(tmp_path, "c1", number).unlink()
    with pytest.raises(SegmentLostError, match=rf"segments/c1: segments {said}.*backup") as error:
        numbers(LakeSegments(tmp_path), Offset({"c1": 1}))
    assert "failOnDataLoss=false" in str(error.value)


def test_a_batch_whose_segments_are_gone_when_it_is_repeated_is_no_empty_batch(
    tmp_path: Path,
) -> None:
    write_segments(tmp_path, "c1", *ONE_EACH)
    segments = LakeSegments(tmp_path)
    end = end_of_batch(Offset({"c1": 3}), segments, Limits(), None)
    for number in (3, 4):
        segment_path(tmp_path, "c1", number).unlink()
    with pytest.raises(SegmentLostError, match="up to 4 are gone"):
        planned(Offset({"c1": 3}), end, LakeSegments(tmp_path))


def test_who_says_so_goes_on_without_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_segments(tmp_path, "c1", *ONE_EACH)
    segment_path(tmp_path, "c1", 2).unlink()
    segment_path(tmp_path, "c1", 3).write_bytes(b"no Parquet")
    segments = LakeSegments(tmp_path, fails_on_loss=False)
    with caplog.at_level(logging.WARNING):
        assert numbers(segments, Offset({"c1": 1})) == [1, 4]
        assert numbers(segments, Offset({"c1": 1})) == [1, 4]
    assert len(caplog.records) == 2


def test_a_damaged_footer_ends_the_query(tmp_path: Path) -> None:
    write_segments(tmp_path, "c1", *ONE_EACH)
    segment_path(tmp_path, "c1", 3).write_bytes(b"no Parquet")
    with pytest.raises(SegmentLostError, match=r"0000000003.parquet is damaged"):
        numbers(LakeSegments(tmp_path), Offset())


def test_damaged_rows_end_the_query(tmp_path: Path) -> None:
    write_segments(tmp_path, "c1", [delivery(float(n), tagged(n)) for n in range(1000)])
    path = segment_path(tmp_path, "c1", 0)
    octets = bytearray(path.read_bytes())
    octets[len(octets) // 4] ^= 0xFF
    path.write_bytes(octets)
    with pytest.raises(DamagedSegmentError, match=r"0000000000.parquet cannot be read.*backup"):
        values_of(tmp_path, [each.name for each in COLUMNS])


def test_repeats_within_and_between_collectors_are_read_once(tmp_path: Path) -> None:
    readings = [delivery(float(n), tagged(n)) for n in range(3000)]
    write_segments(tmp_path, "c1", readings[:2000], readings[1500:2500])
    write_segments(tmp_path, "c2", readings[1000:])
    assert values_of(tmp_path) == {float(n): 1 for n in range(3000)}


def test_all_values_of_a_repeated_message_are_left_out(tmp_path: Path) -> None:
    pack = delivery({"a": 1.0, "b": 2.0}, tagged(7))
    write_segments(tmp_path, "c1", [pack, delivery(3.0, tagged(8))], [pack])
    assert values_of(tmp_path) == {1.0: 1, 2.0: 1, 3.0: 1}


def test_foreign_messages_come_as_often_as_they_were_collected(tmp_path: Path) -> None:
    write_segments(tmp_path, "c1", [delivery(5.0)], [delivery(5.0), delivery(6.0, tagged(1))])
    write_segments(tmp_path, "c2", [delivery(6.0, tagged(1)), delivery(5.0)])
    assert values_of(tmp_path) == {5.0: 3, 6.0: 1}
