"""The columns of a segment as Spark's types."""

from __future__ import annotations

from pyspark.sql import types as t

from spark_ingest.payload.record import COLUMNS

_TYPES: dict[str, t.DataType] = {
    "string": t.StringType(),
    "int8": t.ByteType(),
    "int32": t.IntegerType(),
    "int64": t.LongType(),
    "bool": t.BooleanType(),
    "double": t.DoubleType(),
    "binary": t.BinaryType(),
    "timestamp[us, tz=UTC]": t.TimestampType(),
}


def segment_schema() -> t.StructType:
    return t.StructType([t.StructField(each.name, _TYPES[each.type]) for each in COLUMNS])
