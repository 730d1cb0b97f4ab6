"""Compaction, audit and repairs leave every number as it was, or make it what it should be."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import reduce
from pathlib import Path
from shutil import copytree
from types import MappingProxyType
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_ingest.payload.registry import Field, Kind, SchemaOptions
from spark_ingest.segments.rows import RowOptions
from spark_ingest.spark import rollups
from spark_ingest.spark.audit import SilenceOptions
from spark_ingest.spark.job import Job, JobOptions
from spark_ingest.spark.job_counters import JobCounters
from spark_ingest.spark.pipeline import RouteError
from spark_ingest.spark.upkeep import Upkeep
from spark_ingest.tables.checkpoint import Checkpoint
from spark_ingest.tables.delta.files import write_files
from spark_ingest.tables.delta.table import Table, TableError
from spark_ingest.tables.tables import GAPS, ROLLUPS, SILENCES, checkpoint_folder, table_folder
from tests.spark_ingest.examples import TAKEN_ON_MS, delivery, tagged
from tests.spark_ingest.with_spark.frames import table_rows
from tests.support.lakes import write_segments

DAY_MS = 86_400_000
# Two days of readings, a minute apart where there are any.
READINGS = [
    delivery({"t": float(n)}, tagged(n, ts=TAKEN_ON_MS + (n % 2) * DAY_MS + n * 60_000))
    for n in range(120)
]
NARROW = SchemaOptions("narrow", "#", fields={"t": Field(Kind.NUMBER, "Cel", 0.0, 99.0)})
WIDE = SchemaOptions("wide", "#", fields={"t": Field(Kind.NUMBER, "Cel", 0.0, 109.0)})
OPEN = SchemaOptions("open", "#", fields={"t": Field(Kind.NUMBER, "Cel", 0.0, 119.0)})


def fill(spark: SparkSession, lake: Path, routes: Mapping[str, str] = MappingProxyType({})) -> None:
    """One segment is one batch."""
    Job(spark, JobOptions(lake, rows_max=1, once=True, routes=routes), JobCounters()).run()


def rolled_up(spark: SparkSession, lake: Path) -> dict[str, list[dict[str, Any]]]:
    """What a reader of the rollups gets, in order; by one query, as each costs time."""
    upkeep = Upkeep(spark, lake)
    frames = [
        rollups.merged(upkeep.frame(name), period).withColumn("of", f.lit(name))
        for name, period in ROLLUPS.items()
    ]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ROLLUPS}
    for row in reduce(DataFrame.unionByName, frames).toArrow().to_pylist():
        found[row.pop("of")].append({**row, "sketch": dict(row["sketch"])})
    for rows in found.values():
        rows.sort(key=lambda row: (row["start"], row["unit"] or ""))
    return found


def checkpoint_of(lake: Path) -> Checkpoint:
    return Checkpoint(checkpoint_folder(lake, "tidegate"))


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three batches of readings, once for all who copy it."""
    lake = tmp_path_factory.mktemp("filled")
    write_segments(lake, "c1", *(READINGS[first : first + 40] for first in (0, 40, 80)))
    fill(spark, lake)
    return lake


@pytest.fixture
def lake(filled: Path, tmp_path: Path) -> Path:
    return Path(copytree(filled, tmp_path / "lake"))


def test_compaction_leaves_one_row_for_each_key_and_one_file_for_each_day(
    spark: SparkSession, lake: Path
) -> None:
    before = rolled_up(spark, lake)
    upkeep = Upkeep(spark, lake)
    compacted = {each.table: each for each in upkeep.compact()}
    assert (compacted["rollup_1d"].files_before, compacted["rollup_1d"].files_after) == (6, 2)
    assert compacted["bronze"].files_after == 1
    assert rolled_up(spark, lake) == before
    assert len(table_rows(lake, "rollup_1d")) == len(before["rollup_1d"]) == 2
    assert upkeep.vacuum(0) > 0
    assert rolled_up(spark, lake) == before
    assert [each.files_before for each in upkeep.compact()] == [1, 0, 2, 2, 2], "all is done"
    write_segments(lake, "c1", [delivery({"t": 0.5}, tagged(120))])
    fill(spark, lake)
    assert sum(row["n"] for row in rolled_up(spark, lake)["rollup_1h"]) == 121


def test_rollups_that_are_wrong_are_built_anew_from_bronze_for_the_days_asked_for(
    spark: SparkSession, lake: Path
) -> None:
    right = rolled_up(spark, lake)
    first, second = (row["start"].date() for row in right["rollup_1d"])
    upkeep = Upkeep(spark, lake)
    for name in ROLLUPS:  # as if a batch had been there twice
        table = upkeep.tables[name]
        twice = write_files([table.read()], table.folder, table.schema)
        table.replace([], twice)
    assert rolled_up(spark, lake) != right
    with checkpoint_of(lake) as checkpoint:
        upkeep.rebuild_rollups(checkpoint, first, first)
        one_day = [row["n"] for row in rolled_up(spark, lake)["rollup_1d"]]
        assert one_day == [60, 120]
        upkeep.rebuild_rollups(checkpoint, date.min, second)
    assert rolled_up(spark, lake) == right


def test_a_run_that_was_ended_within_a_batch_must_be_finished_before_repairs(
    spark: SparkSession, lake: Path
) -> None:
    half_way = r"within a batch \(bronze at 3, quarantine at 2.*--once"
    with checkpoint_of(lake) as checkpoint:
        upkeep = Upkeep(spark, lake)
        upkeep.tables["bronze"].append([], checkpoint.app, 3)
        with pytest.raises(TableError, match=half_way):
            upkeep.rebuild_rollups(checkpoint, date.min, date.max)


def test_quarantine_is_decoded_anew_by_other_schemas_and_what_is_good_counts(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    """Values from 100 on were refused; now those up to 109 are good. What is no payload stays."""
    narrow = tmp_path / "narrow"
    bad = delivery(b"\xff\x00", tagged(120))
    both = delivery({"t": 105.0, "rh": 1.0}, tagged(121))
    write_segments(narrow, "c1", READINGS, [bad, both], schemas=[NARROW])
    fill(spark, narrow)
    assert len(table_rows(narrow, "quarantine")) == 22
    with checkpoint_of(narrow) as checkpoint:
        upkeep = Upkeep(spark, narrow)
        replayed = upkeep.replay_quarantine(checkpoint, [WIDE], RowOptions())
        assert (replayed.good, replayed.left) == (11, 11)
        again = upkeep.replay_quarantine(checkpoint, [WIDE], RowOptions())
        assert (again.good, again.left) == (0, 11)
    bronze = sorted((row["seq"], row["part"], row["value"]) for row in table_rows(narrow, "bronze"))
    assert bronze == [*((n, 0, float(n)) for n in range(110)), (121, 0, 105.0), (121, 1, 1.0)]
    assert sum(row["n"] for row in rolled_up(spark, narrow)["rollup_1h"]) == 112
    write_segments(narrow, "c1", [delivery({"t": 1.0}, tagged(122))], schemas=[NARROW])
    fill(spark, narrow)
    assert len(table_rows(narrow, "bronze")) == 113


def test_what_is_decoded_again_goes_where_a_batch_brings_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A route that was there, one that is new, and one whose table another job has filled."""
    hot, new = {"hot": "value > 90"}, {"new": "value > 105"}
    write_segments(tmp_path, "c1", READINGS, schemas=[NARROW])
    fill(spark, tmp_path, hot)
    assert sorted(row["value"] for row in table_rows(tmp_path, "hot")) == [*range(91, 100)]
    with checkpoint_of(tmp_path) as checkpoint:
        wrong = Upkeep(spark, tmp_path, {"odd": "valu > 1"})
        with pytest.raises(RouteError, match="odd"):
            wrong.replay_quarantine(checkpoint, [WIDE], RowOptions())
        upkeep = Upkeep(spark, tmp_path, {**hot, **new})
        for _ in range(2):
            upkeep.replay_quarantine(checkpoint, [WIDE], RowOptions())
        foreign = upkeep.tables["bronze"].read()
        other = Table(table_folder(tmp_path, "other"), upkeep.tables["bronze"].schema)
        other.append(write_files([foreign], other.folder, other.schema), "another", 1)
        of_others = Upkeep(spark, tmp_path, {"other": "true"})
        with pytest.raises(TableError, match="another checkpoint"):
            of_others.replay_quarantine(checkpoint, [OPEN], RowOptions())
    assert sorted(row["value"] for row in table_rows(tmp_path, "hot")) == [*range(91, 110)]
    assert sorted(row["value"] for row in table_rows(tmp_path, "new")) == [*range(106, 110)]
    late = delivery({"t": 50.0}, tagged(120)), delivery({"t": 99.0}, tagged(121))
    write_segments(tmp_path, "c1", late, schemas=[NARROW])
    fill(spark, tmp_path, {**hot, **new})
    assert len(table_rows(tmp_path, "hot")) == 20
    assert len(table_rows(tmp_path, "bronze")) == 112


def test_a_value_that_is_no_number_is_in_quarantine_alone_and_stays_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each value once, over a backfill that is repeated and a run after it."""
    plain = delivery(b'{"t": NaN, "h": 41.5, "big": 1e999}', tagged(0))
    pack = delivery(b'[{"bn":"d:","n":"a","v":1},{"n":"b","v":NaN},{"n":"c","v":3}]', tagged(1))
    out_of_range = delivery({"t": 105.0, "h": 1.0}, tagged(2))
    foreign = delivery(b'{"t": NaN, "h": 7}')
    write_segments(tmp_path, "c1", [plain, pack], [out_of_range, foreign, plain], schemas=[NARROW])

    def found(name: str) -> list[tuple[Any, ...]]:
        rows = (
            (row["seq"], row["part"], row["metric"], row["value"])
            for row in table_rows(tmp_path, name)
        )
        return sorted(rows, key=str)

    good = [
        (0, 1, "h", 41.5),
        (1, 0, "a", 1.0),
        (1, 2, "c", 3.0),
        (2, 1, "h", 1.0),
        (None, 1, "h", 7.0),
    ]
    bad = [(0, 0, "t", None), (0, 2, "big", None), (1, 1, "b", None), (None, 0, "t", None)]
    fill(spark, tmp_path)
    assert found("bronze") == good
    assert found("quarantine") == sorted([*bad, (2, 0, "t", 105.0)], key=str)
    with checkpoint_of(tmp_path) as checkpoint:
        for _ in range(2):
            replayed = Upkeep(spark, tmp_path).replay_quarantine(checkpoint, [WIDE], RowOptions())
            assert replayed.left == 4
    fill(spark, tmp_path)
    assert found("bronze") == sorted([*good, (2, 0, "t", 105.0)], key=str)
    assert found("quarantine") == sorted(bad, key=str)
    assert {row["error"] for row in table_rows(tmp_path, "quarantine")} == {"number"}


@pytest.mark.parametrize("table", ["rollup_1m", "quarantine", "hot"])
def test_a_backfill_that_was_killed_is_finished_by_the_schemas_that_it_had(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """It ends before this table has its part; the next one finds other schemas."""
    hot = {"hot": "value > 90"}
    write_segments(tmp_path, "c1", READINGS, schemas=[NARROW])
    fill(spark, tmp_path, hot)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with checkpoint_of(tmp_path) as checkpoint:
        upkeep = Upkeep(spark, tmp_path, hot)
        commit = Table._commit

        def commit_or_die(self: Table, *arguments: Any) -> None:
            if self.folder.name == table:
                killed()
            commit(self, *arguments)

        with monkeypatch.context() as dying:
            dying.setattr(Table, "_commit", commit_or_die)
            with pytest.raises(KeyboardInterrupt):
                upkeep.replay_quarantine(checkpoint, [WIDE], RowOptions())
        assert len(table_rows(tmp_path, "quarantine")) == 20
        others = {"hot": "value > 100"}
        replayed = Upkeep(spark, tmp_path, others).replay_quarantine(
            checkpoint, [OPEN], RowOptions()
        )
        assert replayed.left == 0
    assert sorted(row["value"] for row in table_rows(tmp_path, "hot")) == [*range(91, 120)]
    bronze = sorted((row["seq"], row["value"]) for row in table_rows(tmp_path, "bronze"))
    assert bronze == [(n, float(n)) for n in range(120)]
    assert sum(row["n"] for row in rolled_up(spark, tmp_path)["rollup_1m"]) == 120


def test_the_audit_is_made_anew_each_time(spark: SparkSession, lake: Path) -> None:
    write_segments(lake, "c1", [delivery({"t": 1.0}, tagged(125))])
    fill(spark, lake)
    upkeep = Upkeep(spark, lake)
    (gap,) = upkeep.audit(SilenceOptions())[GAPS].read().to_pylist()
    assert (gap["first_seq"], gap["last_seq"]) == (120, 124)
    write_segments(lake, "c1", [delivery({"t": 1.0}, tagged(n)) for n in range(120, 125)])
    fill(spark, lake)
    tables = upkeep.audit(SilenceOptions(period_s=60))
    assert tables[GAPS].read().to_pylist() == []
    assert tables[SILENCES].read().num_rows > 0


def test_a_gateway_that_was_away_for_two_days_is_in_its_own_hours(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One gateway is heard all the time, the other's readings of 48 hours come at the end."""
    hours = range(48)
    here = [
        delivery(1.0, tagged(h, ts=TAKEN_ON_MS + h * 3_600_000), received_us=_us(h)) for h in hours
    ]
    away = [
        delivery(
            1.0, tagged(h, gw="far", ts=TAKEN_ON_MS + h * 3_600_000), received_us=_us(48 + h / 1e4)
        )
        for h in hours
    ]
    write_segments(tmp_path, "c1", *([each] for each in here[::12]), here, away)
    fill(spark, tmp_path)
    rolled = rolled_up(spark, tmp_path)["rollup_1h"]
    found = {(row["gw"], row["start"]): row["n"] for row in rolled}
    assert len(found) == 2 * 48
    assert set(found.values()) == {1}


def _us(hour: float) -> int:
    return round((TAKEN_ON_MS + hour * 3_600_000) * 1000)


def test_a_table_in_use_by_another_compaction_is_an_error_that_says_so(
    spark: SparkSession, lake: Path
) -> None:
    first, second = Upkeep(spark, lake), Upkeep(spark, lake)
    paths = first.tables["rollup_1d"].paths()
    first.tables["rollup_1d"].replace(paths, [])
    other: Table = second.tables["rollup_1d"]
    with pytest.raises(TableError, match="one compacts it"):
        other.replace(paths, [])
