"""Work on the tables that is done now and then: compaction, the audit, repairs.

Rule 1: compaction and the audit may run beside the job: each replaces just the files it has read.
Rule 2: repairs hold the checkpoint, so that no batch is half way, and refuse tables that stand at
        different batches: rollups that miss a batch would get it twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_ingest.payload.registry import SchemaOptions
from spark_ingest.segments.rows import RowOptions
from spark_ingest.spark import audit, rollups
from spark_ingest.spark.pipeline import check_routes, open_tables
from spark_ingest.spark.replay import replayed
from spark_ingest.spark.tables_read import table_frame
from spark_ingest.spark.transforms import TABLE, routed
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
    def __init__(
        self, spark: SparkSession, lake: Path, routes: Mapping[str, str] | None = None
    ) -> None:
        """`routes`: conditions by table. Raises TableError."""
        self._spark = spark
        self._lake = lake
        self._routes = routes or {}
        self.tables = open_tables(lake, core())

    # Beside the job

    def compact(self) -> Iterator[Compacted]:
        for name, table in {**self.tables, **self._tables_of(self._routes)}.items():
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
        of_routes, of_audit = self._tables_of(self._routes), open_tables(self._lake, audits())
        tables = {**self.tables, **of_routes, **of_audit}
        return sum(table.vacuum(older_than_h) for table in tables.values())

    def audit(self, options: audit.SilenceOptions) -> dict[str, Table]:
        """The tables of the audit, made again."""
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
        """What is good by these schemas goes out of quarantine, to where a batch would bring it: to
        bronze, rollups and the tables of routes.

        One that was ended half way is finished first, by the schemas and routes that it had.
        Raises TableError, CheckpointError, and RouteError.
        """
        self._must_be_level(checkpoint)
        check_routes(self._spark, self._routes)
        version = self.tables[QUARANTINE].version
        intent = Intent(version, tuple(schemas), options, dict(self._routes))
        left = Intent.left_in(checkpoint.folder)
        if left is not None and left.routes is None:  # of a release that knew of none
            left = replace(left, routes=intent.routes)
        if left is not None and left.version == intent.version and left != intent:
            log.warning("the last one was ended half way, and is finished by the schemas it had")
            before = self._replay(left, checkpoint)
            after = self.replay_quarantine(checkpoint, schemas, options)
            return Replayed(before.good + after.good, after.left)
        intent.record(checkpoint.folder)
        return self._replay(intent, checkpoint)

    def _replay(self, intent: Intent, checkpoint: Checkpoint) -> Replayed:
        quarantine, routes = self.tables[QUARANTINE], intent.routes or {}
        of_routes = self._tables_of(routes)
        for table in of_routes.values():
            self._must_be_of(checkpoint, table)
        paths = quarantine.paths()
        frame = table_frame(self._spark, quarantine, paths)
        again = replayed(frame, intent.schemas, intent.rows).persist()
        try:
            rows = routed(again, routes)
            to_good = {**{name: self.tables[name] for name in (BRONZE, *ROLLUPS)}, **of_routes}
            counts = append(rows, to_good, REPLAY_APP, intent.version)
            left = files_of(rows, {QUARANTINE: quarantine})[QUARANTINE]
            quarantine.replace(paths, left)
        finally:
            again.unpersist()
        return Replayed(counts.get(BRONZE, 0), sum(each.rows for each in left))

    def _tables_of(self, routes: Mapping[str, str]) -> dict[str, Table]:
        """Opened where they are needed only: opening makes those that are not there."""
        return open_tables(self._lake, [*map(readings, routes)])

    def _must_be_of(self, checkpoint: Checkpoint, table: Table) -> None:
        """A route that is new has no batch yet, and `run` would take it for another's."""
        table.must_belong_to(checkpoint.app, checkpoint.folder)
        level = self.tables[BRONZE].version_of(checkpoint.app)
        if table.version_of(checkpoint.app) is None and level is not None:
            table.append([], checkpoint.app, level)

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
