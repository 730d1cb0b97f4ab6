"""Small frames that a reader can check by eye, and tables as plain rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from spark_ingest.payload.record import COLUMNS
from spark_ingest.segments.segment import schema
from spark_ingest.spark.columns import segment_schema
from spark_ingest.tables.tables import table_folder

MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return MIDNIGHT + timedelta(seconds=seconds)


def naive(seconds: float) -> datetime:
    """As PySpark hands times out: those of the session's zone, which is UTC, without saying so."""
    return at(seconds).replace(tzinfo=None)


def readings(spark: SparkSession, *rows: Mapping[str, Any]) -> DataFrame:
    """As segments have them; what is not given is null, `seq` counts, `rx_ts` is `ts`."""
    names = [each.name for each in COLUMNS]
    usual = {"gw": "gh", "epoch": 1, "part": 0, "device": "n1", "topic": "t", "metric": "m"}
    full = [{"seq": seq, "ts": MIDNIGHT, **usual, **row} for seq, row in enumerate(rows)]
    values = [{name: {"rx_ts": row["ts"], **row}.get(name) for name in names} for row in full]
    return spark.createDataFrame(pa.Table.from_pylist(values, schema()), segment_schema())


def rows_of(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """In order."""
    found = [tuple(row) for row in frame.select(*columns).collect()]
    return sorted(found, key=lambda row: tuple((each is not None, each) for each in row))


def table_rows(lake: Path, name: str) -> list[dict[str, Any]]:
    """As any reader of Delta sees it."""
    found: list[dict[str, Any]] = (
        DeltaTable(str(table_folder(lake, name))).to_pyarrow_table().to_pylist()
    )
    return found
