"""Rows to several Delta tables in one pass over them: files in the workers, commits in the driver.

Spark's own way to write from Python starts a process for each commit of each table, which a batch
of every few seconds would feel; so the files are written by `mapInArrow`, whose result is the list
of them, and whoever has the list commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from spark_ingest.delta.files import Added, TableFiles
from spark_ingest.delta.table import Table
from spark_ingest.spark.transforms import TABLE

ADDED = f"{TABLE} string, path string, bytes bigint, rows bigint, day string, stats string"


@dataclass(frozen=True, slots=True)
class Target:
    """What a worker has to know of a table."""

    folder: str
    schema: Any
    stats_of: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowsToFiles:
    """For `mapInArrow`: rows with a column `table` to rows of ADDED, in the order of the files.

    What goes to a table that is no target is left out: it has this batch already.
    """

    targets: Mapping[str, Target]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        files: dict[str, TableFiles] = {}
        try:
            for batch in batches:
                for name, rows in _by_table(pa.Table.from_batches([batch])):
                    if name in self.targets:
                        self._files_of(name, files).write(rows)
            added = [(name, each) for name, of in files.items() for each in of.close()]
        except BaseException:
            for of in files.values():
                of.discard()
            raise
        yield pa.RecordBatch.from_arrays(
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

    def _files_of(self, name: str, files: dict[str, TableFiles]) -> TableFiles:
        if name not in files:
            target = self.targets[name]
            files[name] = TableFiles(Path(target.folder), target.schema, target.stats_of)
        return files[name]


def files_of(rows: DataFrame, tables: Mapping[str, Table]) -> dict[str, list[Added]]:
    """Runs the job. By table, also those that got nothing."""
    targets = {
        name: Target(str(table.folder), table.schema, table.stats_of)
        for name, table in tables.items()
    }
    found: dict[str, list[Added]] = {name: [] for name in tables}
    for row in rows.mapInArrow(RowsToFiles(targets), ADDED).collect():
        found[row[TABLE]].append(Added(row.path, row.bytes, row["rows"], row.day, row.stats))
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
