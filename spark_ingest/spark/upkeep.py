"""Work on the tables that is done now and then: compaction, the audit, repairs.

Rule 1: compaction and the audit may run beside the job: each replaces just the files it has read.
Rule 2: repairs hold the checkpoint, so that no batch is half way, and refuse tables that stand at
        different batches: rollups that miss a batch would get it twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_ingest.payload.registry import SchemaOptions
from spark_ingest.segments.rows import RowOptions
from spark_ingest.spark import audit, rollups
from spark_ingest.spark.pipeline import open_tables
from spark_ingest.spark.replay import replayed
from spark_ingest.spark.tables_read import table_frame
from spark_ingest.spark.transforms import TABLE, with_day, with_tables
from spark_ingest.spark.writing import append, files_of
from spark_ingest.tables.checkpoint import Checkpoint
from spark_ingest.tables.delta.table import Table, TableError
from spark_ingest.tables.half_way import Intent
from spark_ingest.tables.tables import (
    BRONZE,
    COMPLETENESS,
    DAY,
    GAPS,
    QUARANTINE,
    ROLLUPS,
    SILENCES,
    audits,
    core,
    readings,
)

# Its batches are the versions of the quarantine that it has read.
REPLAY_APP = "tidegate-replay"

log = logging.getLogger("tidegate.ingest.upkeep")


@dataclass(frozen=True, slots=True)
class Compacted:
    table: str
    files_before: int
    files_after: int


@dataclass(frozen=True, slots=True)
class Replayed:
    good: int
    left: int


class Upkeep:
    def __init__(self, spark: SparkSession, lake: Path, routes: Sequence[str] = ()) -> None:
        """Raises TableError."""
        self._spark = spark
        self._lake = lake
        self.tables = open_tables(lake, core())
        self._routes = open_tables(lake, [*map(readings, routes)])

    # Beside the job

    def compact(self) -> Iterator[Compacted]:
        for name, table in {**self.tables, **self._routes}.items():
            before = len(table.paths())
            if name in ROLLUPS:
                for day, files in sorted(table.files_by_day().items()):
                    if files > 1:
                        self._merge(name, table, day)
            else:
                table.compact()
            yield Compacted(name, before, len(table.paths()))

    def vacuum(self, older_than_h: int) -> int:
        """How many files it were."""
        tables = {**self.tables, **self._routes, **open_tables(self._lake, audits())}
        return sum(table.vacuum(older_than_h) for table in tables.values())

    def audit(self, options: audit.SilenceOptions) -> dict[str, Table]:
        """The tables of the audit, made anew."""
        arrived = audit.arrived(self.frame(BRONZE), self.frame(QUARANTINE)).persist()
        found = {
            GAPS: audit.gaps(arrived),
            SILENCES: audit.silences(arrived, options),
            COMPLETENESS: audit.completeness(arrived, options),
        }
        tables = open_tables(self._lake, audits())
        try:
            for name, frame in found.items():
                self._overwrite(name, tables[name], frame)
        finally:
            arrived.unpersist()
        return tables

    def frame(self, name: str) -> DataFrame:
        return table_frame(self._spark, self.tables[name])

    # Instead of the job

    def rebuild_rollups(self, checkpoint: Checkpoint, first: date, last: date) -> dict[str, int]:
        """From bronze, for these days by `ts`; how many rows each rollup has for them now."""
        self._must_be_level(checkpoint)
        days = f.to_date("ts").between(_date(first), _date(last))
        measured = self.frame(BRONZE).where(days).withColumn(TABLE, f.lit(BRONZE))
        targets = {name: self.tables[name] for name in ROLLUPS}
        rows = {}
        for name, added in files_of(measured, targets).items():
            table = targets[name]
            old = [
                path
                for day in table.files_by_day()
                if first <= date.fromisoformat(day) <= last
                for path in table.paths(day)
            ]
            table.replace(old, added)
            rows[name] = sum(each.rows for each in added)
        return rows

    def replay_quarantine(
        self, checkpoint: Checkpoint, schemas: Sequence[SchemaOptions], options: RowOptions
    ) -> Replayed:
        """What is good by these schemas goes to bronze and rollups, and out of quarantine.

        One that was ended half way is finished first, by the schemas that it had.
        """
        self._must_be_level(checkpoint)
        intent = Intent.of(self.tables[QUARANTINE].version, schemas, options)
        left = Intent.left_in(checkpoint.folder)
        if left is not None and left.version == intent.version and left != intent:
            log.warning("the last one was ended half way, and is finished by the schemas it had")
            before = self._replay(left)
            after = self.replay_quarantine(checkpoint, schemas, options)
            return Replayed(before.good + after.good, after.left)
        intent.record(checkpoint.folder)
        return self._replay(intent)

    def _replay(self, intent: Intent) -> Replayed:
        quarantine = self.tables[QUARANTINE]
        version, schemas, options = intent.version, intent.schemas, intent.rows
        paths = quarantine.paths()
        again = replayed(table_frame(self._spark, quarantine, paths), schemas, options).persist()
        try:
            good = with_tables(with_day(again.where("error is null")), {})
            to_good = {name: self.tables[name] for name in (BRONZE, *ROLLUPS)}
            counts = append(good, to_good, REPLAY_APP, version)
            bad = with_tables(with_day(again.where("error is not null")), {})
            left = files_of(bad, {QUARANTINE: quarantine})[QUARANTINE]
            quarantine.replace(paths, left)
        finally:
            again.unpersist()
        return Replayed(counts.get(BRONZE, 0), sum(each.rows for each in left))

    def _must_be_level(self, checkpoint: Checkpoint) -> None:
        """Rule 2."""
        versions = {name: table.version_of(checkpoint.app) for name, table in self.tables.items()}
        if len(set(versions.values())) > 1:
            shown = ", ".join(f"{name} at {version}" for name, version in versions.items())
            raise TableError(
                f"the last run was ended within a batch ({shown}); let it finish first: "
                "python -m spark_ingest run --once"
            )

    def _merge(self, name: str, table: Table, day: str) -> None:
        paths = table.paths(day)
        frame = rollups.merged(table_frame(self._spark, table, paths), ROLLUPS[name])
        self._swap(name, table, paths, frame.where(f.col(DAY) == f.lit(day)))

    def _overwrite(self, name: str, table: Table, frame: DataFrame) -> None:
        self._swap(name, table, table.paths(), frame)

    def _swap(self, name: str, table: Table, paths: list[str], frame: DataFrame) -> None:
        rows = frame.coalesce(1).withColumn(TABLE, f.lit(name))
        table.replace(paths, files_of(rows, {name: table})[name])


def _date(day: date) -> Column:
    """As text: py4j writes the year 1 with one digit, which Java does not read."""
    return f.lit(day.isoformat()).cast("date")
