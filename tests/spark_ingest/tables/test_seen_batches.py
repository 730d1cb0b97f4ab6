"""What a query has seen by the end of each batch, as files beside Spark's checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_ingest.planning.seen import Seen
from spark_ingest.segments.sequences import Sequences
from spark_ingest.tables.checkpoint import CheckpointError
from spark_ingest.tables.seen_batches import FILES_KEPT, SeenBatches


def seen_of(*numbers: int) -> Seen:
    seen = Seen()
    seen.add({"gh/1": Sequences(numbers).encoded()})
    return seen


def test_a_batch_begins_with_what_the_one_before_it_had(tmp_path: Path) -> None:
    batches = SeenBatches(tmp_path)
    assert batches.before(0).by_epoch == {}
    batches.keep(0, seen_of(1, 2, 2000))
    batches.keep(1, seen_of(1, 2, 3, 2000))
    assert batches.before(1).encoded() == seen_of(1, 2, 2000).encoded()
    assert SeenBatches(tmp_path).before(2).encoded() == seen_of(1, 2, 3, 2000).encoded()


def test_a_batch_that_is_repeated_writes_its_file_again(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    (tmp_path / "seen" / "0.tmp").write_bytes(b"half of")
    for _ in range(2):
        SeenBatches(tmp_path).keep(0, seen_of(5))
    assert SeenBatches(tmp_path).before(1).encoded() == seen_of(5).encoded()
    assert [each.name for each in (tmp_path / "seen").iterdir()] == ["0.json"]


def test_the_newest_files_are_kept(tmp_path: Path) -> None:
    batches = SeenBatches(tmp_path)
    for number in range(FILES_KEPT + 5):
        batches.keep(number, Seen())
    kept = sorted(int(each.stem) for each in (tmp_path / "seen").iterdir())
    assert kept == [*range(5, FILES_KEPT + 5)]


@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "flipped", "newer", "stranger"])
def test_a_file_that_is_gone_or_damaged_is_refused_with_what_to_do(
    tmp_path: Path, damage: str
) -> None:
    batches = SeenBatches(tmp_path)
    batches.keep(3, seen_of(1))
    path = tmp_path / "seen" / "3.json"
    whole = path.read_bytes()
    path.write_bytes(
        {
            "gone": b"", "empty": b"", "cut": whole[:-4], "flipped": whole.replace(b"gh", b"hg"),
            "newer": whole.replace(b'"version": 1', b'"version": 2'), "stranger": b"[1]\n[]",
        }[damage]
    )  # fmt: skip
    if damage == "gone":
        path.unlink()
    with pytest.raises(CheckpointError, match=r"3\.json does not say .* before batch 4 .*backup"):
        batches.before(4)
