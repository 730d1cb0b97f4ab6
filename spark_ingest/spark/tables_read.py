"""A Delta table as a DataFrame, without any jar: its files by name, read by Spark's own Parquet."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_schema

from spark_ingest.tables.delta.table import Table


def table_frame(spark: SparkSession, table: Table, paths: Sequence[str] | None = None) -> DataFrame:
    """As it is now; only these files of it, if there are `paths`."""
    schema: t.StructType = from_arrow_schema(table.schema)
    files = [str(table.folder / path) for path in (table.paths() if paths is None else paths)]
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", str(table.folder)).parquet(*files)
