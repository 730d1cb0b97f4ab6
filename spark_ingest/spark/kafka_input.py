"""A job's rows from a Kafka topic, by Spark's own `format("kafka")`, each reading once.

Spark's offsets of a topic say how far it was read and not which readings that were, so that stands
in a file beside them (seen_batches.py). Which records of a batch are repeats follows from their
headers alone: the driver looks at those, and the workers leave the repeats out by their position.

Rule 1: the same batch is the same rows. Spark asks for the same offsets again, records never
        change, and what was seen before a batch is a file, durable before any table has the batch.
Rule 2: gw, epoch and seq are those of the headers, in the tables too, so that no reading is there
        twice whatever stands in a value.
Rule 3: what no collector has written has no version header. It is left out, counted and logged.

Limits: as those of planning/seen.py. A batch has at most `records_max` records, of which the driver
holds the tags.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, is_remote
from pyspark.sql import functions as f

from spark_ingest.kafka.record import TAG_HEADERS, VERSION, VERSION_HEADER
from spark_ingest.payload.record import NUMBER_DIGITS_MAX
from spark_ingest.planning.positions import Position, Tagged, repeats
from spark_ingest.planning.seen import FORGOTTEN
from spark_ingest.spark.columns import segment_schema
from spark_ingest.spark.inputs import InputError, Taken, must_read
from spark_ingest.tables.checkpoint import Checkpoint
from spark_ingest.tables.seen_batches import SeenBatches

log = logging.getLogger("tidegate.ingest.kafka")

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
VALUE = (
    "client string, gw string, topic string, qos byte, retain boolean, gw_ts bigint, rx_ts bigint, "
    "schema string, payload string, rows array<struct<part: int, ts: bigint, ts_src: string, "
    "device: string, metric: string, value: double, unit: string, text: string, error: string, "
    "error_detail: string, payload: boolean>>"
)
_OF_ROW = ("part", "ts_src", "device", "metric", "value", "unit", "text", "error", "error_detail")
_OF_MESSAGE = ("client", "topic", "qos", "retain", "schema")


@dataclass(slots=True)
class KafkaInput:
    servers: str
    topic: str
    records_max: int = 1_000_000
    fails_on_loss: bool = True
    options: Mapping[str, str] = field(default_factory=dict)
    _seen: SeenBatches | None = None

    def check(self, checkpoint: Checkpoint) -> None:
        must_read(checkpoint, "kafka")
        self._seen = SeenBatches(checkpoint.folder)

    def stream(self, spark: SparkSession) -> DataFrame:
        ours = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            "maxOffsetsPerTrigger": str(self.records_max),
            "failOnDataLoss": str(self.fails_on_loss).lower(),
        }
        try:
            found = spark.readStream.format("kafka").options(**{**self.options, **ours}).load()
            found.schema  # noqa: B018  # a Connect server looks for its connector now
            return found
        except AnalysisException as error:
            if "kafka" in str(error).lower():
                package = f"{CONNECTOR}:{spark.version}"
                how = (
                    f"start the Spark Connect server with --packages {package}"
                    if is_remote()
                    else f'set spark.conf to {{ "spark.jars.packages" = "{package}" }}, or '
                    "spark.jars to files that are here"
                )
                raise InputError(
                    f"Spark has no connector for Kafka, which is a jar: {how}"
                ) from None
            raise

    def rows(self, batch: DataFrame, number: int) -> Taken:
        """Raises InputError, CheckpointError, and OSError."""
        assert self._seen is not None
        tags = _Tags(batch)
        seen = self._seen.before(number)
        forgotten = seen.forgotten
        positions = repeats(tags.complete(), seen)
        if seen.forgotten > forgotten:
            log.warning(FORGOTTEN, seen.forgotten - forgotten)
        self._seen.keep(number, seen)
        if tags.foreign:
            log.warning("%d records of %s are of no collector; they are left out",
                        tags.foreign, self.topic)  # fmt: skip
        rows = rows_of(without(batch, positions))
        return Taken(rows, len(positions), tags.foreign, seen.forgotten)

    def ended(self, checkpoint: Checkpoint) -> None:
        """The lake has nothing that waits for it."""


class _Tags:
    """Of the records of a batch, in the driver."""

    def __init__(self, batch: DataFrame) -> None:
        self._table = batch.select("partition", "offset", *tag_columns()).toArrow()
        versions = self._table["version"].to_pylist()
        self.foreign = versions.count(None)
        newest = max((each for each in versions if each is not None), default=VERSION)
        if newest > VERSION:
            raise InputError(
                f"the topic has records of version {newest}, this program knows {VERSION}: bring "
                "it to the version of the collectors"
            )

    def complete(self) -> Iterator[Tagged]:
        columns = [self._table[name].to_pylist() for name in ("partition", "offset", *TAG_HEADERS)]
        names = self._table["version"].to_pylist()
        for version, *record in zip(names, *columns, strict=True):
            if version is not None and record[-1] is not None:
                yield tuple(record)


def tag_columns() -> list[Column]:
    """`version`, null of foreign records, and `gw`, `epoch`, `seq`: all three, or all null."""
    epoch, seq = (_number(header(name)) for name in ("epoch", "seq"))
    gateway = header("gw")
    is_complete = gateway.isNotNull() & epoch.isNotNull() & seq.isNotNull()
    tag = [f.when(is_complete, each) for each in (gateway, epoch, seq)]
    named = [each.alias(name) for each, name in zip(tag, TAG_HEADERS, strict=True)]
    return [_number(header(VERSION_HEADER)).alias("version"), *named]


def header(name: str) -> Column:
    """The first of that name, as text."""
    found = f.filter("headers", lambda each: each["key"] == f.lit(name))
    return f.get(found, f.lit(0))["value"].cast("string")


def without(batch: DataFrame, positions: list[Position]) -> DataFrame:
    if not positions:
        return batch
    import pyarrow as pa

    partitions, offsets = zip(*positions, strict=True)
    table = pa.table({"partition": pa.array(partitions, pa.int32()),
                      "offset": pa.array(offsets, pa.int64())})  # fmt: skip
    repeated = batch.sparkSession.createDataFrame(table)
    return batch.join(f.broadcast(repeated), ["partition", "offset"], "left_anti")


def rows_of(batch: DataFrame) -> DataFrame:
    """Records of collectors to rows as segments have them."""
    message = f.from_json(f.col("value").cast("string"), VALUE).alias("m")
    ours = batch.select(*tag_columns(), message).where("version is not null")
    rows = ours.select("gw", "epoch", "seq", "m", f.explode("m.rows").alias("r"))
    columns = {
        "gw": f.coalesce(f.col("gw"), f.col("m.gw")),
        "epoch": f.col("epoch"),
        "seq": f.col("seq"),
        **{name: f.col(f"m.{name}") for name in _OF_MESSAGE},
        **{name: f.col(f"r.{name}") for name in _OF_ROW},
        "ts": f.timestamp_micros("r.ts"),
        "gw_ts": f.timestamp_micros("m.gw_ts"),
        "rx_ts": f.timestamp_micros("m.rx_ts"),
        "payload": f.when(f.col("r.payload"), f.unbase64("m.payload")),
    }
    return rows.select(*(columns[each.name].alias(each.name) for each in segment_schema()))


def _number(text: Column) -> Column:
    """Not below 0; what is no such number is null."""
    return f.when(text.rlike(f"^[0-9]{{1,{NUMBER_DIGITS_MAX}}}$"), text.cast("bigint"))
