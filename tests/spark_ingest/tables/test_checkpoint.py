"""A checkpoint has one process at a time and one name for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_ingest.tables.checkpoint import APP, Checkpoint, CheckpointError


def commits(folder: Path, *batches: int) -> None:
    (folder / "commits").mkdir(parents=True)
    for batch in batches:
        (folder / "commits" / str(batch)).write_text("v1\n{}")


def test_a_second_process_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    with (
        Checkpoint(tmp_path / "q"),
        pytest.raises(CheckpointError, match=r"another process is at work.*--set spark.name"),
        Checkpoint(tmp_path / "q"),
    ):
        pass
    with Checkpoint(tmp_path / "q"):
        pass


def test_its_name_stays_the_same_and_is_its_own(tmp_path: Path) -> None:
    with Checkpoint(tmp_path / "q") as first, Checkpoint(tmp_path / "r") as other:
        name = first.app
        assert other.app != name
    with Checkpoint(tmp_path / "q") as again:
        assert again.app == name


def test_a_name_that_is_lost_after_batches_were_written_is_not_replaced(tmp_path: Path) -> None:
    with Checkpoint(tmp_path / "q") as checkpoint:
        assert checkpoint.app
        commits(checkpoint.folder, 0)
        (checkpoint.folder / APP).unlink()
        with pytest.raises(CheckpointError, match="Bring it back"):
            _ = checkpoint.app


def test_how_far_it_is_stands_in_the_offset_of_the_last_batch_that_is_done(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.segments_read == {}
    commits(tmp_path, 0)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"v": 1, "next": {"c1": 4}, "seen": []}')
    (tmp_path / "offsets" / "1").write_text('v1\n{}\n{"v": 1, "next": {"c1": 9}, "seen": []}')
    assert checkpoint.segments_read == {"c1": 4}


@pytest.mark.parametrize(
    "text", ["", "v1\n{}", "v1\n{}\nnonsense", 'v1\n{}\n{"v": 1}', "v1\n{}\n7"]
)
def test_an_offset_that_a_power_cut_left_half_written_is_told(tmp_path: Path, text: str) -> None:
    commits(tmp_path, 0)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(CheckpointError, match=r"offsets/0 is not what Spark and gwlog write"):
        _ = Checkpoint(tmp_path).segments_read


def test_the_last_batch_is_the_highest_number_and_not_the_last_name(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.last_batch is None
    commits(tmp_path, 9, 10)
    (tmp_path / "commits" / ".10.crc").write_text("")
    assert checkpoint.last_batch == 10
