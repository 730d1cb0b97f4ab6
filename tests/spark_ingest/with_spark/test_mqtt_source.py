"""`mqtt`: a stream from a broker, which loses nothing when the query is stopped and started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from hil.rig.mosquitto import Mosquitto
from spark_ingest.spark.errors import first_line
from tests.support.publisher import Publisher
from tests.support.waiting import until


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto(["max_queued_messages 0"]) as running:
        yield running


def start(spark: SparkSession, folder: Path, **options: str) -> StreamingQuery:
    return (
        spark.readStream.format("mqtt")
        .options(**options)
        .load(str(folder / "lake"))
        .select("value")
        .writeStream.format("gwdelta")
        .options(appId="q", path=str(folder / "t"), checkpointLocation=str(folder / "c"))
        .start()
    )


def values(folder: Path) -> list[Any]:
    if not (folder / "t" / "_delta_log").exists():
        return []
    return sorted(DeltaTable(str(folder / "t")).to_pyarrow_table()["value"].to_pylist())


def test_what_is_published_is_in_the_table_also_what_came_between_two_runs(
    spark: SparkSession, broker: Mosquitto, tmp_path: Path
) -> None:
    options = {"broker": broker.url, "topics": "farm/#"}
    query = start(spark, tmp_path, **options)
    log = tmp_path / "lake" / "mqtt.log"
    until(lambda: log.exists() and "connected to broker" in log.read_text())
    with Publisher(broker.port) as publisher:
        publisher.publish(range(100))
        until(lambda: len(values(tmp_path)) == 100)
        query.stop()
        publisher.publish(range(100, 200))
        again = start(spark, tmp_path, **options)
        until(lambda: values(tmp_path) == [float(n) for n in range(200)])
        again.stop()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "'topics' must be given"),
        ({"topics": "a/#"}, "'broker' must be given"),
        ({"config": "x.toml", "topics": "a/#"}, "stand in the file that config names"),
    ],
)
def test_a_wrong_option_is_an_error_in_one_line(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException) as error:
        start(spark, tmp_path, **options).awaitTermination()
    assert said in first_line(error.value)


def test_a_collector_that_cannot_be_ends_the_query_with_its_words(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(PySparkException) as error:
        start(spark, tmp_path, broker="mqtt://127.0.0.1:1", topics="a/##").awaitTermination(60)
    said = first_line(error.value)
    assert "the collector has ended with 78: --set: collector.topics: expected 1 to 64" in said
