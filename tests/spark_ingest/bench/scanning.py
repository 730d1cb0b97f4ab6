"""How fast Spark reads the lake, and what else there is to compare it with. Rows per second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_ingest.payload.record import Delivery
from spark_ingest.segments.shelf import SEGMENTS
from spark_ingest.spark.columns import segment_schema
from spark_ingest.spark.job import Job, JobOptions
from spark_ingest.spark.job_counters import JobCounters
from tests.spark_ingest.examples import TAKEN_ON_MS, tagged
from tests.support.lakes import write_segments

SEGMENT_MESSAGES = 20_000
GATEWAYS, DEVICES = 4, 100
REPEATS = 6
SIX = "gw string, client string, epoch bigint, seq bigint, topic string, value double"


def fill(lake: Path, messages: int, *, repeats: bool) -> None:
    """Of two collectors; with `repeats` one message in a hundred is in both."""
    shares: tuple[list[Delivery], list[Delivery]] = ([], [])
    for number in range(messages):
        made = _delivery(number)
        shares[number % 2].append(made)
        if repeats and number % 100 == 0:
            shares[1 - number % 2].append(made)
    for name, share in zip(("c1", "c2"), shares, strict=True):
        cuts = range(0, len(share), SEGMENT_MESSAGES)
        write_segments(lake, name, *(share[first : first + SEGMENT_MESSAGES] for first in cuts))


def _delivery(number: int) -> Delivery:
    gateway, sequence = number % GATEWAYS, number // GATEWAYS
    client = f"n{number % DEVICES}"
    return Delivery(
        f"farm/{number % DEVICES}/t", b"%d.5" % (number % 1000), 1, False,
        tagged(sequence, gw=f"gw-{gateway}", client=client, ts=TAKEN_ON_MS + number),
        TAKEN_ON_MS * 1000 + number * 1000, 1, 1,
    )  # fmt: skip


def gwlog(spark: SparkSession, lake: Path) -> DataFrame:
    return spark.read.format("gwlog").load(str(lake))


def parquet(spark: SparkSession, lake: Path) -> DataFrame:
    return spark.read.schema(segment_schema()).parquet(str(lake / SEGMENTS / "*"))


def rows_per_s(frames: Mapping[str, Callable[[], DataFrame]], rows: int) -> dict[str, float]:
    """The best of a few, in turns, so that a busy minute of the machine is everybody's. The first
    of each is for Java to warm up.
    """
    best = dict.fromkeys(frames, 0.0)
    for _ in range(REPEATS):
        for name, frame in frames.items():
            best[name] = max(best[name], rows / _seconds(lambda: _to_nowhere(frame())))  # noqa: B023
    return best


def job(spark: SparkSession, lake: Path, rows: int) -> float:
    """Lake to all tables."""
    return rows / _seconds(
        Job(spark, JobOptions(lake, rows_max=200_000, once=True), JobCounters()).run
    )


def gwlog_of_six_columns(spark: SparkSession, lake: Path) -> DataFrame:
    return spark.read.format("gwlog").schema(SIX).load(str(lake))


def row_tuples(spark: SparkSession, rows: int) -> DataFrame:
    """What a client in the driver does: messages in a list, a DataFrame of the list."""
    return spark.createDataFrame(list(_tuples(rows)), SIX)


def _tuples(rows: int) -> Iterator[tuple[object, ...]]:
    for number in range(rows):
        yield f"gw-{number % 4}", f"n{number % 100}", 1, number // 4, f"farm/{number % 100}/t", 1.5


def _to_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
