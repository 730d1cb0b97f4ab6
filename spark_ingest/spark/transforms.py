"""Rows of segments to rows of tables: DataFrame to DataFrame, no state, nothing is read or written.

A row goes to `bronze` or to `quarantine`, and a good one to each table whose route has a condition
that it meets.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from spark_ingest.tables.tables import BRONZE, DAY, QUARANTINE

TABLE = "table"  # the column that says where a row goes


def routed(rows: DataFrame, routes: Mapping[str, str]) -> DataFrame:
    """As tables have them: the one way there, of a batch and of what is decoded again."""
    return with_tables(with_day(rows), routes)


def with_day(rows: DataFrame) -> DataFrame:
    """By the day of receipt: files of a day are complete soon, and none is written years later."""
    return rows.withColumn(DAY, f.to_date("rx_ts"))


def with_tables(rows: DataFrame, routes: Mapping[str, str]) -> DataFrame:
    """Once for each table that it goes to. `routes` are conditions in SQL by table."""
    is_good = f.col("error").isNull()
    home = f.when(is_good, f.lit(BRONZE)).otherwise(f.lit(QUARANTINE))
    if not routes:
        return rows.withColumn(TABLE, home)
    also = [f.when(is_good & _meets(where), f.lit(name)) for name, where in routes.items()]
    return rows.withColumn(TABLE, f.explode(f.array_compact(f.array(home, *also))))


def _meets(where: str) -> Column:
    """What is neither true nor false, because a column is null, is not met."""
    return f.coalesce(f.expr(where), f.lit(False))
