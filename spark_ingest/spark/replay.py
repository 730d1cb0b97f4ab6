"""Rows in quarantine to rows as the decoder of today makes them. DataFrame to DataFrame.

Of a message whose payload could not be decoded at all, every value is new. Of one that had some
good values, only those that were in quarantine are: the good ones are in bronze already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_ingest.payload.record import Delivery
from spark_ingest.payload.registry import Registry, SchemaOptions
from spark_ingest.segments.rows import RowOptions, Rows
from spark_ingest.segments.segment import table_of
from spark_ingest.spark.columns import segment_schema

OF_MESSAGE = (
    "gw",
    "client",
    "epoch",
    "seq",
    "topic",
    "qos",
    "retain",
    "gw_ts",
    "rx_ts",
    "payload",
)


def replayed(
    quarantine: DataFrame, schemas: Sequence[SchemaOptions], options: RowOptions
) -> DataFrame:
    messages = quarantine.groupBy(*OF_MESSAGE).agg(
        f.collect_set("part").alias("parts"), f.max(f.col("metric").isNull()).alias("is_whole")
    )
    return messages.mapInArrow(DecodeAgain(tuple(schemas), options), segment_schema())


@dataclass(frozen=True, slots=True)
class DecodeAgain:
    """For `mapInArrow`. Each message is a batch of its own, for none repeats another here."""

    schemas: tuple[SchemaOptions, ...]
    options: RowOptions

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        registry = Registry(self.schemas)
        for batch in batches:
            for message in batch.to_pylist():
                yield from self._decoded(registry, message)

    def _decoded(self, registry: Registry, message: dict[str, Any]) -> Iterator[Any]:
        import pyarrow.compute as pc

        rows = Rows(registry, self.options)
        rows.add(_delivery(message))
        columns, _ = rows.finished("", 0)
        table = table_of(columns)
        if not message["is_whole"]:
            table = table.filter(pc.is_in(table["part"], value_set=_parts(message)))
        yield from table.to_batches()


def _delivery(message: dict[str, Any]) -> Delivery:
    tag = {
        "gw": message["gw"],
        "client": message["client"],
        "epoch": message["epoch"],
        "seq": message["seq"],
        "ts": None if message["gw_ts"] is None else round(_us(message["gw_ts"]) / 1000),
    }
    return Delivery(
        topic=message["topic"],
        payload=message["payload"],
        qos=message["qos"],
        retain=message["retain"],
        properties=[(name, str(value)) for name, value in tag.items() if value is not None],
        received_us=_us(message["rx_ts"]),
        packet_id=0,
        connection=0,
    )


def _us(moment: datetime) -> int:
    """Exactly, which `timestamp()` is not."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _parts(message: dict[str, Any]) -> Any:
    import pyarrow as pa

    return pa.array(message["parts"], pa.int32())
