"""Readings that two collectors have had, and whether each of them is in the tables once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from spark_ingest.tables.checkpoint import Checkpoint
from tests.spark_ingest.examples import delivery, tagged
from tests.spark_ingest.with_spark.frames import table_rows
from tests.support.lakes import write_segments

SEGMENT = 500


def write(lake: Path, rounds: range) -> None:
    """A segment for each of two collectors, which have half of it in common."""
    for round_ in rounds:
        first = round_ * SEGMENT
        readings = [delivery(float(n), tagged(n)) for n in range(first, first + SEGMENT)]
        write_segments(lake, "c1", readings[: SEGMENT * 3 // 4])
        write_segments(lake, "c2", readings[SEGMENT // 4 :])


def batches_done(lake: Path) -> int:
    folder = lake / "checkpoints" / "tidegate" / "commits"
    return len(list(folder.glob("[0-9]*"))) if folder.exists() else 0


def rounds_done(lake: Path) -> int:
    """That a batch has had which Spark knows to be done."""
    read = Checkpoint(lake / "checkpoints" / "tidegate").segments_read
    return min(read.get("c1", 0), read.get("c2", 0))


def assert_exact(lake: Path, readings: int) -> None:
    bronze = Counter(row["value"] for row in table_rows(lake, "bronze"))
    assert bronze == {float(n): 1 for n in range(readings)}
    for name in ("rollup_1m", "rollup_1h", "rollup_1d"):
        rows = table_rows(lake, name)
        assert (sum(row["n"] for row in rows), sum(row["sum"] for row in rows)) == (
            readings, sum(range(readings)),
        )  # fmt: skip
