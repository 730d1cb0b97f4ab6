"""Where a job's rows come from: a stream, and what of each batch of it goes to the tables.

`LakeInput` reads segments by `gwlog`, which has removed repeats already. `KafkaInput` is in
kafka_input.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from spark_ingest.segments.consumers import Consumers
from spark_ingest.spark.place import cores_of
from spark_ingest.tables.checkpoint import Checkpoint


class InputError(Exception):
    """It cannot be read, and to try again would not change that."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Of a batch of the source, what goes to the tables."""

    rows: DataFrame
    repeated: int = 0
    foreign: int = 0
    forgotten: int = 0


class Input(Protocol):
    """A job at a Spark Connect server pickles it after `check`."""

    def check(self, checkpoint: Checkpoint) -> None:
        """Before anything is written. Raises InputError, CheckpointError."""
        ...

    def stream(self, spark: SparkSession) -> DataFrame: ...

    def rows(self, batch: DataFrame, number: int) -> Taken:
        """As segments have them, each reading once. The same for a batch that is repeated."""
        ...

    def ended(self, checkpoint: Checkpoint) -> None:
        """The query has ended in order."""
        ...


@dataclass(frozen=True, slots=True)
class LakeInput:
    lake: Path
    query: str
    rows_max: int
    fails_on_loss: bool

    def check(self, checkpoint: Checkpoint) -> None:
        must_read(checkpoint, "segments")

    def stream(self, spark: SparkSession) -> DataFrame:
        return (
            spark.readStream.format("gwlog")
            .option("maxRowsPerTrigger", str(self.rows_max))
            .option("failOnDataLoss", str(self.fails_on_loss).lower())
            .option("partitions", str(cores_of(spark)))
            .option("consumer", self.query)
            .load(str(self.lake))
        )

    def rows(self, batch: DataFrame, number: int) -> Taken:
        return Taken(batch)

    def ended(self, checkpoint: Checkpoint) -> None:
        # Spark tells the source of finished batches with the next one, and there is none.
        Consumers(self.lake).note(self.query, checkpoint.segments_read)


def must_read(checkpoint: Checkpoint, what: str) -> None:
    """A checkpoint says how far a query is with one source; with another it would mean nothing."""
    offset: Mapping[str, Any] | None = checkpoint.newest_offset
    if offset is None:
        return
    found = "segments" if "next" in offset else "kafka"
    if found != what:
        raise InputError(
            f"{checkpoint.folder} is of a query that reads {_SPOKEN[found]}, and this one reads "
            f"{_SPOKEN[what]}. Tables are filled from one of them: set lake.path to another "
            "folder, or [kafka] to what it was"
        )


_SPOKEN = {"segments": "segments", "kafka": "a Kafka topic"}
