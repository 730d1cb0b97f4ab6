"""Rows to several Delta tables in one pass over them: files in the workers, commits in the driver.

One job for each batch, whose result is the list of files, and the one that has the list commits.
Spark's own way to write from Python would be a job and a new process for each table, which a batch
of every few seconds would feel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from spark_ingest.spark.transforms import TABLE
from spark_ingest.tables.delta.files import Added, TableFiles
from spark_ingest.tables.delta.table import Table
from spark_ingest.tables.partials import NEEDED, partials_of
from spark_ingest.tables.tables import BRONZE, ROLLUPS

ADDED = f"{TABLE} string, path string, bytes bigint, rows bigint, day string, stats string"
# Values that wait for a worker's last row to be rolled up with it; beyond, partials are more.
ROLLED_UP_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """What a worker has to know of a table."""

    folder: str
    schema: Any


@dataclass(frozen=True, slots=True)
class RowsToFiles:
    """For `mapInArrow`: rows with a column `table` to rows of ADDED.

    Rows of bronze go to the rollups as well. What goes to a table that is no target is left out:
    it has this batch already.
    """

    targets: Mapping[str, Target]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        work = _Work(self.targets)
        try:
            for batch in batches:
                work.add(pa.Table.from_batches([batch]))
            added = work.finished()
        except BaseException:
            work.discard()
            raise
        yield _as_batch(added)


@dataclass(slots=True)
class _Work:
    """Of one worker for one batch."""

    targets: Mapping[str, Target]
    files: dict[str, TableFiles] = field(default_factory=dict)
    measured: list[Any] = field(default_factory=list)
    measured_rows: int = 0

    def add(self, rows: Any) -> None:
        for name, of_table in _by_table(rows):
            if name in self.targets:
                self._write(name, of_table)
            if name == BRONZE and not ROLLUPS.keys().isdisjoint(self.targets):
                self.measured.append(of_table.select(NEEDED))
                self.measured_rows += of_table.num_rows
        if self.measured_rows >= ROLLED_UP_MAX:
            self._roll_up()

    def finished(self) -> list[tuple[str, Added]]:
        self._roll_up()
        return [(name, each) for name, files in self.files.items() for each in files.close()]

    def discard(self) -> None:
        for files in self.files.values():
            files.discard()

    def _roll_up(self) -> None:
        import pyarrow as pa

        if not self.measured:
            return
        rows = pa.concat_tables(self.measured)
        self.measured, self.measured_rows = [], 0
        for name, period in ROLLUPS.items():
            if name in self.targets:
                self._write(name, partials_of(rows, period))

    def _write(self, name: str, rows: Any) -> None:
        if name not in self.files:
            target = self.targets[name]
            self.files[name] = TableFiles(Path(target.folder), target.schema)
        self.files[name].write(rows)


def files_of(rows: DataFrame, tables: Mapping[str, Table]) -> dict[str, list[Added]]:
    """Runs the job. By table, also those that got nothing."""
    targets = {name: Target(str(table.folder), table.schema) for name, table in tables.items()}
    found: dict[str, list[Added]] = {name: [] for name in tables}
    for row in rows.mapInArrow(RowsToFiles(targets), ADDED).collect():
        found[row[TABLE]].append(
            Added(path=row.path, bytes=row.bytes, rows=row["rows"], day=row.day, stats=row.stats)
        )
    return found


def append(rows: DataFrame, tables: Mapping[str, Table], app: str, batch: int) -> dict[str, int]:
    """How many rows went to each table. Those that have the batch already are left alone."""
    missing = {
        name: table
        for name, table in tables.items()
        if (version := table.version_of(app)) is None or version < batch
    }
    if not missing:
        return {}
    found = files_of(rows, missing)
    for name, added in found.items():
        tables[name].append(added, app, batch)
    return {name: sum(each.rows for each in added) for name, added in found.items()}


def _by_table(rows: Any) -> Iterator[tuple[str, Any]]:
    import pyarrow.compute as pc

    names = pc.unique(rows[TABLE]).to_pylist()
    if len(names) == 1:
        yield names[0], rows
        return
    for name in names:
        yield name, rows.filter(pc.equal(rows[TABLE], name))


def _as_batch(added: list[tuple[str, Added]]) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [
            pa.array([name for name, _ in added], pa.string()),
            pa.array([each.path for _, each in added], pa.string()),
            pa.array([each.bytes for _, each in added], pa.int64()),
            pa.array([each.rows for _, each in added], pa.int64()),
            pa.array([each.day for _, each in added], pa.string()),
            pa.array([each.stats for _, each in added], pa.string()),
        ],
        names=[TABLE, "path", "bytes", "rows", "day", "stats"],
    )
