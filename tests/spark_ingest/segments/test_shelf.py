"""The folder of segments: numbers, the lock, and what a former life left."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_ingest.segments.shelf import (
    Shelf,
    TakenError,
    collectors_in,
    segment_numbers,
    segment_path,
)


def test_numbers_begin_at_0_and_go_on_behind_the_highest(tmp_path: Path) -> None:
    with Shelf(tmp_path, "c1") as shelf:
        placed = [shelf.place(b"first").name, shelf.place(b"second").name]
    assert placed == ["0000000000.parquet", "0000000001.parquet"]
    segment_path(tmp_path, "c1", 0).unlink()  # as retention does
    with Shelf(tmp_path, "c1") as shelf:
        assert shelf.next_number == 2
        assert shelf.place(b"third").read_bytes() == b"third"
    assert segment_numbers(tmp_path, "c1") == [1, 2]


def test_what_a_former_life_left_half_done_is_removed(tmp_path: Path) -> None:
    with Shelf(tmp_path, "c1") as shelf:
        shelf.place(b"whole")
    left = tmp_path / "segments" / "c1" / "0000000001.tmp"
    left.write_bytes(b"ha")
    with Shelf(tmp_path, "c1") as shelf:
        assert not left.exists()
        shelf.place(b"again")
    assert segment_path(tmp_path, "c1", 1).read_bytes() == b"again"


def test_one_process_has_a_folder_at_a_time(tmp_path: Path) -> None:
    with Shelf(tmp_path, "c1"):
        with pytest.raises(TakenError, match=r"--set collector\.name=second"):
            Shelf(tmp_path, "c1").__enter__()
        with Shelf(tmp_path, "c2"):
            assert collectors_in(tmp_path) == ["c1", "c2"]
    with Shelf(tmp_path, "c1"):
        pass


def test_segments_are_found_newest_first(tmp_path: Path) -> None:
    with Shelf(tmp_path, "c1") as shelf:
        for _ in range(3):
            shelf.place(b"")
        names = [path.name for path in shelf.newest_first()]
    assert names == ["0000000002.parquet", "0000000001.parquet", "0000000000.parquet"]


def test_other_files_are_no_segments(tmp_path: Path) -> None:
    with Shelf(tmp_path, "c1") as shelf:
        shelf.place(b"")
        (shelf.folder / "notes.parquet").touch()
        (shelf.folder / "12.parquet").touch()
    (tmp_path / "segments" / "_consumers").mkdir()
    assert segment_numbers(tmp_path, "c1") == [0]
    assert collectors_in(tmp_path) == ["c1"]
    assert collectors_in(tmp_path / "nowhere") == []
