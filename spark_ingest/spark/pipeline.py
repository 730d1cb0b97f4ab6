"""One micro-batch to all tables, exactly once. What `foreachBatch` calls, in the driver.

All files are written in one pass over the rows. Then each table is committed, and its commit has
the batch's number in it, so a batch that died half way is repeated and skips what is there already.

Rule 1: tables are opened, and found to belong to this checkpoint, before the query starts.
Rule 2: every core table gets every batch, be it without rows, so that all of them stand at the same
        one when nobody writes. What repairs them relies on that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from spark_ingest.spark.columns import segment_schema
from spark_ingest.spark.inputs import Taken
from spark_ingest.spark.transforms import routed
from spark_ingest.spark.writing import append
from spark_ingest.spark.written import Written
from spark_ingest.tables.checkpoint import Checkpoint
from spark_ingest.tables.delta.table import Table, TableError
from spark_ingest.tables.tables import Definition, core, readings, table_folder

log = logging.getLogger("tidegate.ingest.tables")


class RouteError(Exception):
    """A condition that Spark does not understand."""


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    lake: Path
    routes: Mapping[str, str]  # conditions by table
    rows: Callable[[DataFrame, int], Taken]  # of a batch of the source and its number


class Pipeline:
    def __init__(
        self,
        options: PipelineOptions,
        checkpoint: Checkpoint,
        on_written: Callable[[Written], None],
    ) -> None:
        """Raises TableError, CheckpointError, and OSError."""
        self._options = options
        self._checkpoint = checkpoint
        self._app = checkpoint.app
        self._on_written = on_written
        self.error: Exception | None = None  # of `write`, before Spark made pages of it
        self._tables = open_tables(options.lake, [*core(), *map(readings, options.routes)])

    def check(self) -> None:
        """Rule 1. Raises TableError."""
        checkpoint = self._checkpoint
        done = checkpoint.last_batch
        for table in self._tables.values():
            table.must_belong_to(self._app, checkpoint.folder)
        for each in core():
            version = self._tables[each.name].version_of(self._app)
            if done is not None and (version is None or version < done):
                raise TableError(
                    f"{self._tables[each.name].folder} has batches up to {version}, and "
                    f"{checkpoint.folder} says that {done} are written. Bring the table back, or "
                    "move all tables and the checkpoint away to build them again from the segments"
                )

    def write(self, rows: DataFrame, batch: int) -> None:
        began = time.monotonic()
        try:
            self._checkpoint.make_durable(batch)
            taken = self._options.rows(rows, batch)
            rows = routed(taken.rows, self._options.routes)
            written = append(rows, self._tables, self._app, batch)
        except Exception as error:
            self.error = error
            raise
        seconds = time.monotonic() - began
        self._on_written(
            Written(
                batch=batch,
                rows=written,
                seconds=seconds,
                repeated=taken.repeated,
                foreign=taken.foreign,
                forgotten=taken.forgotten,
            )
        )
        log.debug("batch %d: %s", batch, written or "was there already")


def open_tables(lake: Path, definitions: list[Definition]) -> dict[str, Table]:
    return {each.name: Table(table_folder(lake, each.name), each.schema()) for each in definitions}


def check_routes(spark: SparkSession, routes: Mapping[str, str]) -> None:
    """Raises RouteError, before anything is written."""
    empty = spark.createDataFrame([], segment_schema())
    for name, where in routes.items():
        try:
            routed(empty, {name: where}).schema  # noqa: B018  # it is looked up here
        except AnalysisException as error:
            raise RouteError(f"route {name!r}: where = {where!r}: {first_of(error)}") from None


def first_of(error: Exception) -> str:
    """Spark's message without its plan and its codes."""
    return str(error).strip().partition("\n")[0].partition(" SQLSTATE")[0]
