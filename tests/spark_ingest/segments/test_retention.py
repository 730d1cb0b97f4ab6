"""Segments that every query has read may go, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_ingest.segments.consumers import ConsumerError, Consumers
from spark_ingest.segments.retention import removable
from spark_ingest.segments.shelf import segment_path
from tests.spark_ingest.examples import delivery
from tests.support.lakes import write_segments

ALL_OLD = 10**18


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for name in ("c1", "c2"):
        write_segments(tmp_path, name, *([delivery(1.0, received_us=n + 1)] for n in range(5)))
    return tmp_path


def left(lake: Path, before_us: int = ALL_OLD) -> list[str]:
    return [f"{each.parent.name}/{int(each.stem)}" for each in removable(lake, before_us)]


def test_without_a_consumer_nothing_is_removed(lake: Path) -> None:
    assert left(lake) == []


def test_what_one_query_has_yet_to_read_stays(lake: Path) -> None:
    Consumers(lake).note("fast", {"c1": 5, "c2": 3})
    Consumers(lake).note("slow", {"c1": 2, "c2": 4})
    assert left(lake) == ["c1/0", "c1/1", "c2/0", "c2/1", "c2/2"]


def test_what_a_query_does_not_know_it_has_not_read(lake: Path) -> None:
    Consumers(lake).note("fast", {"c1": 5, "c2": 5})
    Consumers(lake).note("new", {"c2": 5})
    assert left(lake) == ["c2/0", "c2/1", "c2/2", "c2/3"]


def test_the_newest_segment_stays_because_numbers_go_on_from_it(lake: Path) -> None:
    Consumers(lake).note("q", {"c1": 5, "c2": 5})
    for path in removable(lake, ALL_OLD):
        path.unlink()
    write_segments(lake, "c1", [delivery(2.0)])
    assert segment_path(lake, "c1", 5).exists()


def test_what_is_young_or_damaged_stays_and_all_behind_it(lake: Path) -> None:
    Consumers(lake).note("q", {"c1": 5, "c2": 5})
    segment_path(lake, "c2", 1).write_bytes(b"")
    assert left(lake, before_us=4) == ["c1/0", "c1/1", "c1/2", "c2/0"]


def test_a_damaged_note_is_an_error_that_says_what_to_do(lake: Path) -> None:
    Consumers(lake).note("q", {"c1": 5})
    (lake / "consumers" / "q.json").write_text("{}")
    with pytest.raises(ConsumerError, match="remove it, its query writes it again"):
        left(lake)


@pytest.mark.parametrize("name", ["", "../q", ".q", "q" * 65, "q/r"])
def test_a_name_that_is_no_file_is_refused(lake: Path, name: str) -> None:
    with pytest.raises(ConsumerError, match="letters, digits"):
        Consumers(lake).note(name, {})
