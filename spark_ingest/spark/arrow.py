"""Spark's types as Arrow's: those that a table of ours may have."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as t

from spark_ingest.spark.options import OptionError


def arrow_schema(schema: t.StructType) -> Any:
    import pyarrow as pa

    return pa.schema([(each.name, arrow_type(each.dataType, each.name)) for each in schema])


def arrow_type(given: t.DataType, name: str) -> Any:
    """`name` is the column's, for the error."""
    import pyarrow as pa

    if isinstance(given, t.TimestampType):
        return pa.timestamp("us", tz="UTC")
    if isinstance(given, t.DecimalType):
        return pa.decimal128(given.precision, given.scale)
    if isinstance(given, t.ArrayType):
        return pa.list_(arrow_type(given.elementType, name))
    if isinstance(given, t.MapType):
        return pa.map_(arrow_type(given.keyType, name), arrow_type(given.valueType, name))
    if isinstance(given, t.StructType):
        return pa.struct([(each.name, arrow_type(each.dataType, name)) for each in given])
    simple = {
        t.StringType: pa.string(),
        t.BinaryType: pa.binary(),
        t.BooleanType: pa.bool_(),
        t.ByteType: pa.int8(),
        t.ShortType: pa.int16(),
        t.IntegerType: pa.int32(),
        t.LongType: pa.int64(),
        t.FloatType: pa.float32(),
        t.DoubleType: pa.float64(),
        t.DateType: pa.date32(),
    }
    if type(given) not in simple:
        raise OptionError(
            f"the column {name!r} is {given.simpleString()}, which gwdelta does not write; cast it"
        )
    return simple[type(given)]
