"""One micro-batch to all tables, exactly once. What `foreachBatch` calls, in the driver.

Order: bronze, quarantine and routes in one pass, then the rollups. Each table's commit carries the
batch's number, so a batch that died half way is repeated and skips what is there already.

Rule 1: tables are opened, and found to belong to this checkpoint, before the query starts.
Rule 2: every core table gets every batch, be it without rows, so that all of them stand at the same
        one when nobody writes. What repairs them relies on that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_ingest.checkpoint import Checkpoint
from spark_ingest.delta.table import Table, TableError
from spark_ingest.spark import rollups
from spark_ingest.spark.columns import segment_schema
from spark_ingest.spark.job_counters import JobCounters
from spark_ingest.spark.transforms import TABLE, measured, with_day, with_tables
from spark_ingest.spark.writing import append
from spark_ingest.tables import ROLLUPS, Definition, core, readings, table_folder

log = logging.getLogger("tidegate.ingest.tables")


class RouteError(Exception):
    """A condition that Spark does not understand."""


@dataclass(frozen=True, slots=True)
class PipelineRules:
    lake: Path
    routes: Mapping[str, str] = field(default_factory=dict)  # conditions by table


class Pipeline:
    def __init__(self, rules: PipelineRules, app: str, counters: JobCounters) -> None:
        self._rules = rules
        self._app = app
        self._counters = counters
        self._readings = open_tables(rules.lake, [
            *(each for each in core() if each.name not in ROLLUPS), *map(readings, rules.routes),
        ])  # fmt: skip
        self._rollups = open_tables(rules.lake, [each for each in core() if each.name in ROLLUPS])

    def check(self, checkpoint: Checkpoint) -> None:
        """Rule 1. Raises TableError."""
        done = checkpoint.last_batch
        tables = {**self._readings, **self._rollups}
        for table in tables.values():
            table.must_belong_to(self._app, checkpoint.folder)
        for each in core():
            version = tables[each.name].version_of(self._app)
            if done is not None and (version is None or version < done):
                raise TableError(
                    f"{tables[each.name].folder} has batches up to {version}, and "
                    f"{checkpoint.folder} says that {done} are written. Bring the table back, or "
                    "move all tables and the checkpoint away to build them anew from the segments"
                )

    def write(self, rows: DataFrame, batch: int) -> None:
        began = time.monotonic()
        rows = rows.persist()
        try:
            to_tables = with_tables(with_day(rows), self._rules.routes)
            written = append(to_tables, self._readings, self._app, batch)
            written |= append(to_rollups(rows), self._rollups, self._app, batch)
        finally:
            rows.unpersist()
        self._counters.wrote(written, time.monotonic() - began)
        log.debug("batch %d: %s", batch, written or "was there already")


def to_rollups(rows: DataFrame) -> DataFrame:
    """Partials of all periods, each coarser one made of the finer."""
    found: list[DataFrame] = []
    for name, period in ROLLUPS.items():
        partial = (
            rollups.merged(found[-1], period) if found else rollups.partials(measured(rows), period)
        )
        found.append(partial.withColumn(TABLE, f.lit(name)))
    return reduce(DataFrame.unionByName, found)


def open_tables(lake: Path, definitions: list[Definition]) -> dict[str, Table]:
    return {
        each.name: Table(table_folder(lake, each.name), each.schema(), each.stats_of)
        for each in definitions
    }


def check_routes(spark: SparkSession, routes: Mapping[str, str]) -> None:
    """Raises RouteError, before anything is written."""
    empty = spark.createDataFrame([], segment_schema())
    for name, where in routes.items():
        try:
            with_tables(with_day(empty), {name: where}).schema  # noqa: B018  # it is looked up here
        except AnalysisException as error:
            raise RouteError(f"route {name!r}: where = {where!r}: {first_of(error)}") from None


def first_of(error: Exception) -> str:
    """Spark's message without its plan and its codes."""
    return str(error).strip().partition("\n")[0].partition(" SQLSTATE")[0]
