"""The job: every reading in every table it belongs to once, whatever dies or is taken away."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from hil.rig.small_disk import SmallDisk, small_disk
from spark_ingest.segments.consumers import Consumers
from spark_ingest.spark.job import Job, JobError, JobOptions
from spark_ingest.spark.job_counters import JobCounters
from spark_ingest.spark.pipeline import RouteError
from spark_ingest.tables.checkpoint import Checkpoint, CheckpointError
from spark_ingest.tables.delta.table import TableError
from spark_ingest.tables.tables import ROLLUPS, checkpoint_folder, table_folder
from tests.spark_ingest.examples import delivery, tagged
from tests.spark_ingest.with_spark.frames import table_rows
from tests.support.dying_driver import die_at_each_commit
from tests.support.lakes import write_segments

READINGS = [delivery(float(n), tagged(n)) for n in range(300)]
BAD = delivery(b"\xff\x00", tagged(300))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    write_segments(tmp_path, "c1", READINGS[:200], [*READINGS[150:250], BAD])
    write_segments(tmp_path, "c2", READINGS[220:])
    return tmp_path


def run(spark: SparkSession, lake: Path, **options: Any) -> JobCounters:
    """Until all is read; one segment is one batch."""
    counters = JobCounters()
    Job(spark, replace(JobOptions(lake, rows_max=1, once=True), **options), counters).run()
    return counters


def assert_exact(lake: Path, readings: int = 300) -> None:
    bronze = table_rows(lake, "bronze")
    assert Counter(row["value"] for row in bronze) == {float(n): 1 for n in range(readings)}
    (bad,) = table_rows(lake, "quarantine")
    assert (bad["error"], bad["payload"], bad["seq"]) == ("form", b"\xff\x00", 300)
    for name in ROLLUPS:
        partials = table_rows(lake, name)
        assert sum(row["n"] for row in partials) == readings
        assert sum(row["sum"] for row in partials) == sum(range(readings))
        assert sum(n for row in partials for _, n in row["sketch"]) == readings


def test_all_tables_have_every_reading_once(spark: SparkSession, lake: Path) -> None:
    progress = lake / "progress.json"
    routes = {"high": "value >= 290"}
    counters = run(spark, lake, routes=routes, progress_file=progress)
    assert_exact(lake)
    assert sorted(row["value"] for row in table_rows(lake, "high")) == [*range(290, 300)]
    sample = counters.registry.get_sample_value
    assert sample("tidegate_tables_rows_total", {"table": "bronze"}) == 300
    assert sample("tidegate_tables_rows_total", {"table": "high"}) == 10
    assert sample("tidegate_tables_batches_total") == 3
    report = json.loads(progress.read_text())
    assert (report["segments_behind"], report["segments_read"]) == (0, {"c1": 2, "c2": 1})
    assert Consumers(lake).read_by_all() == {"c1": 2, "c2": 1}
    run(spark, lake, routes=routes)
    assert_exact(lake)


def test_what_a_batch_has_is_on_the_disk_before_any_table_has_the_batch(
    spark: SparkSession, lake: Path
) -> None:
    """Else, after a power cut, its number could stand for other rows."""
    synced: list[str] = []
    fsync = os.fsync

    def recording(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    with patch.object(os, "fsync", recording):
        run(spark, lake)
    for batch in range(3):
        offset = synced.index(str(checkpoint_folder(lake, "tidegate") / "offsets" / str(batch)))
        log = table_folder(lake, "bronze") / "_delta_log"
        assert offset < synced.index(str(log / f"{batch + 1:020d}.json"))
    assert str(checkpoint_folder(lake, "tidegate") / "offsets") in synced


def test_a_driver_that_dies_at_any_commit_loses_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first batch dies before its first commit, the second behind that, and so on: each run
    repeats the batch of the one before.
    """
    for first in range(0, 300, 50):
        write_segments(tmp_path, "c1", READINGS[first : first + 50])
    write_segments(tmp_path, "c2", [*READINGS[40:60], BAD])
    die_at_each_commit(lambda: run(spark, tmp_path))
    assert_exact(tmp_path)


def test_a_second_process_with_the_checkpoint_is_refused(spark: SparkSession, lake: Path) -> None:
    with (
        Checkpoint(checkpoint_folder(lake, "tidegate")),
        pytest.raises(CheckpointError, match="another process"),
    ):
        run(spark, lake)
    assert not table_folder(lake, "bronze").exists()


def test_a_table_that_is_gone_is_not_begun_anew_behind_its_checkpoint(
    spark: SparkSession, lake: Path
) -> None:
    run(spark, lake)
    shutil.rmtree(table_folder(lake, "rollup_1h"))
    with pytest.raises(TableError, match=r"rollup_1h has batches up to None.*that 2 are written"):
        run(spark, lake)


def test_tables_whose_checkpoint_is_gone_are_not_filled_twice(
    spark: SparkSession, lake: Path
) -> None:
    run(spark, lake)
    shutil.rmtree(checkpoint_folder(lake, "tidegate"))
    with pytest.raises(TableError, match=r"another checkpoint.*mv "):
        run(spark, lake)
    shutil.rmtree(lake / "tables")
    run(spark, lake)
    assert_exact(lake)


def test_a_route_that_is_wrong_is_told_before_anything_is_made(
    spark: SparkSession, lake: Path
) -> None:
    with pytest.raises(RouteError, match="`warmth` cannot be resolved"):
        run(spark, lake, routes={"warm": "warmth > 3"})
    assert not (lake / "tables").exists()


def test_a_lost_segment_is_one_line(spark: SparkSession, lake: Path) -> None:
    run(spark, lake)
    write_segments(lake, "c2", [delivery(1.0, tagged(400))], [delivery(1.0, tagged(401))])
    (lake / "segments" / "c2" / "0000000001.parquet").unlink()
    with pytest.raises(JobError) as error:
        run(spark, lake)
    assert "segments 1 to 1 are gone" in str(error.value)
    assert "\n" not in str(error.value)
    run(spark, lake, fails_on_loss=False)
    assert [row["seq"] for row in table_rows(lake, "bronze") if row["seq"] > 300] == [401]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk", 8 << 20, is_resolved=True) as mounted:
        yield mounted


def test_on_a_full_disk_it_ends_and_goes_on_when_there_is_room(
    spark: SparkSession, disk: SmallDisk
) -> None:
    lake = disk.path / "lake"
    write_segments(lake, "c1", READINGS[:200], [*READINGS[150:250], BAD])
    run(spark, lake)
    write_segments(lake, "c2", READINGS[220:])
    disk.fill()
    with pytest.raises((JobError, OSError)) as error:
        run(spark, lake)
    is_full = isinstance(error.value, OSError) and error.value.errno == errno.ENOSPC
    assert is_full or "No space left on device" in str(error.value)
    disk.free()
    run(spark, lake)
    assert_exact(lake)
