"""Arrow batches to Parquet files in a table's folder, not yet part of it. In any process.

Rule 1: a file is durable before its `Added` is handed out; only a commit makes it the table's.
Rule 2: a name is never used twice, so an attempt that is repeated leaves orphans and no damage.

Limit: DAYS_OPEN_MAX files are open at a time. More days make more files, not less rows.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from spark_ingest.segments.disk import Disk
from spark_ingest.tables.delta.stats import Stats
from spark_ingest.tables.tables import DAY

DAYS_OPEN_MAX = 32
COMPRESSION = "zstd"


@dataclass(frozen=True, slots=True)
class Added:
    """A file that waits to be committed."""

    path: str  # from the table's folder
    bytes: int
    rows: int
    day: str | None
    stats: str  # JSON, as Delta has it

    def as_row(self) -> tuple[str, int, int, str | None, str]:
        return self.path, self.bytes, self.rows, self.day, self.stats


class TableFiles:
    """The files of one attempt. `close` hands them out; `discard` removes what there is of them."""

    def __init__(self, folder: Path, schema: Any) -> None:
        """`schema` is the table's, as PyArrow has it."""
        self._folder = folder
        self._is_partitioned = DAY in schema.names
        self._in_file = (
            schema.remove(schema.get_field_index(DAY)) if self._is_partitioned else schema
        )
        self._schema = schema
        self._open: dict[str | None, _OpenFile] = {}  # the one that is longest unused first
        self._done: list[Added] = []

    def write(self, batch: Any) -> None:
        """A `pyarrow.RecordBatch` or `Table` with the table's columns, in any order."""
        table = _as_table(batch).select(self._schema.names)
        if not table.num_rows:
            return
        if not self._is_partitioned:
            self._write(None, table.cast(self._schema))
            return
        for day, rows in _by_day(table):
            self._write(day.isoformat(), rows.cast(self._schema).drop_columns([DAY]))

    def close(self) -> list[Added]:
        while self._open:
            self._close_longest_unused()
        return self._done

    def discard(self) -> None:
        for each in self._open.values():
            each.remove()
        for added in self._done:
            (self._folder / added.path).unlink(missing_ok=True)

    def _write(self, day: str | None, table: Any) -> None:
        file = self._open.pop(day, None)
        if file is None:
            if len(self._open) >= DAYS_OPEN_MAX:
                self._close_longest_unused()
            file = _OpenFile(self._folder, day, self._in_file)
        self._open[day] = file
        file.write(table)

    def _close_longest_unused(self) -> None:
        self._done.append(self._open.pop(next(iter(self._open))).close())


class _OpenFile:
    def __init__(self, folder: Path, day: str | None, schema: Any) -> None:
        import pyarrow.parquet as pq

        inside = Path() if day is None else Path(f"{DAY}={day}")
        self._path = inside / f"part-{uuid.uuid4().hex}.{COMPRESSION}.parquet"
        self._folder = folder
        (folder / inside).mkdir(parents=True, exist_ok=True)
        self._file = (folder / self._path).open("xb")
        self._writer = pq.ParquetWriter(self._file, schema, compression=COMPRESSION)
        self._day = day
        self._stats = Stats()

    def write(self, table: Any) -> None:
        self._writer.write_table(table)
        self._stats.add(table)

    def close(self) -> Added:
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        octets = self._file.tell()
        self._file.close()
        Disk().sync_folder((self._folder / self._path).parent)
        return Added(
            path=str(self._path),
            bytes=octets,
            rows=self._stats.rows,
            day=self._day,
            stats=self._stats.to_json(),
        )

    def remove(self) -> None:
        # It writes the end of the file once more, on a disk that may take nothing.
        with suppress(Exception):
            self._writer.close()
        self._file.close()
        (self._folder / self._path).unlink(missing_ok=True)


def write_files(batches: Iterable[Any], folder: Path, schema: Any) -> list[Added]:
    """All or nothing, but for power loss."""
    files = TableFiles(folder, schema)
    try:
        for batch in batches:
            files.write(batch)
        return files.close()
    except BaseException:
        files.discard()
        raise


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _as_table(batch: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch


def _by_day(table: Any) -> Iterator[tuple[date, Any]]:
    import pyarrow.compute as pc

    days = pc.unique(table[DAY])
    if len(days) == 1:
        yield days[0].as_py(), table
        return
    for day in days:
        yield day.as_py(), table.filter(pc.equal(table[DAY], day))
