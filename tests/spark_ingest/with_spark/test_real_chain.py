"""Sensors, gateway, broker, two collectors and Spark: what the sensors were promised is in the
tables, exactly once, and what never came is found.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from spark_ingest.spark import rollups
from spark_ingest.spark.audit import SilenceOptions
from spark_ingest.spark.job import Job, JobOptions
from spark_ingest.spark.job_counters import JobCounters
from spark_ingest.spark.upkeep import Upkeep
from spark_ingest.tables.tables import COMPLETENESS, GAPS
from tests.spark_ingest.with_spark.frames import table_rows
from tests.support.collector import CollectorProcess, rows_in
from tests.support.plain_sensors import PlainSensors
from tests.support.publisher import Publisher
from tests.support.waiting import until

SENSORS, READINGS = 20, 1000
VALUES = [count / 8 for count in range(READINGS)]  # whose sums are exact
EXPECTED = {(f"farm/{n}", value): 1 for n in range(SENSORS) for value in VALUES}
COLLECTING = "[rotation]\nlinger_ms = 300\n"


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto(["max_queued_messages 0"]) as running:
        yield running


class Filling:
    """The job beside everything else, as it runs for ever."""

    def __init__(self, spark: SparkSession, lake: Path) -> None:
        self.errors: list[Exception] = []
        self._job = Job(spark, JobOptions(lake, trigger_s=1.0), JobCounters())
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Filling:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._job.stop()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._job.run()
        except Exception as error:
            self.errors.append(error)


def readings_in(lake: Path) -> Counter[tuple[str, float]]:
    if not (lake / "tables" / "bronze" / "_delta_log").exists():
        return Counter()
    return Counter((row["topic"], row["value"]) for row in table_rows(lake, "bronze"))


def repeat_one_in_a_hundred(broker: Mosquitto, lake: Path) -> int:
    """As a broker does that sends again what was acknowledged."""
    rows = rows_in(lake, "c1", "c2")[::100]
    with Publisher(broker.port) as publisher:
        for row in rows:
            publisher.publish(
                [row["seq"]], topic=row["topic"], gateway=row["gw"],
                payload=f"{row['value']:g}".encode(),
            )  # fmt: skip
    return len(rows)


def by_minute(bronze: list[dict[str, Any]]) -> dict[tuple[datetime, str], list[float]]:
    found: dict[tuple[datetime, str], list[float]] = {}
    for row in bronze:
        start = row["ts"].replace(second=0, microsecond=0)
        found.setdefault((start, row["topic"]), []).append(row["value"])
    return found


def assert_rollups_are(spark: SparkSession, lake: Path, bronze: list[dict[str, Any]]) -> None:
    upkeep = Upkeep(spark, lake)
    merged = rollups.merged(upkeep.frame("rollup_1m"), "minute").toArrow().to_pylist()
    found = {
        (row["start"], row["topic"]): (row["n"], row["sum"], row["min"], row["max"])
        for row in merged
    }
    assert found == {
        key: (len(values), sum(values), min(values), max(values))
        for key, values in by_minute(bronze).items()
    }
    days = rollups.merged(upkeep.frame("rollup_1d"), "day").groupBy().sum("n", "sum").first()
    assert days is not None
    assert tuple(days) == (SENSORS * READINGS, SENSORS * sum(VALUES))


def test_twenty_thousand_readings_are_in_the_tables_once_and_a_hole_is_found(
    spark: SparkSession, broker: Mosquitto, tmp_path: Path
) -> None:
    collectors = [CollectorProcess(tmp_path, broker.url, n, COLLECTING) for n in ("c1", "c2")]
    lake = tmp_path / "lake"
    with GatewayProcess(tmp_path, broker.url) as gateway, collectors[0], collectors[1]:
        gateway.wait_until_connected()
        for each in collectors:
            each.wait_until_collecting()
        with (
            Filling(spark, lake) as filling,
            PlainSensors(gateway.port, "farm", SENSORS) as sensors,
        ):
            sensors.send(VALUES)
            until(lambda: len(rows_in(lake, "c1", "c2")) >= SENSORS * READINGS, 60)
            repeats = repeat_one_in_a_hundred(broker, lake)
            assert repeats > 100
            until(lambda: len(rows_in(lake, "c1", "c2")) >= SENSORS * READINGS + repeats, 60)
            until(lambda: bool(filling.errors) or readings_in(lake) >= Counter(EXPECTED), 60)
        assert filling.errors == []
    Job(spark, JobOptions(lake, once=True), JobCounters()).run()
    assert readings_in(lake) == EXPECTED
    bronze = table_rows(lake, "bronze")
    assert sorted({(row["gw"], row["epoch"]) for row in bronze}) == [("under-test", 1)]
    assert_rollups_are(spark, lake, bronze)
    audit = Upkeep(spark, lake).audit(SilenceOptions())
    assert audit[GAPS].read().to_pylist() == []
    assert {row["device"] for row in audit[COMPLETENESS].read().to_pylist()} == {
        f"farm-{n}" for n in range(SENSORS)
    }


def test_a_hole_in_a_gateway_s_numbering_is_found(
    spark: SparkSession, broker: Mosquitto, tmp_path: Path
) -> None:
    with CollectorProcess(tmp_path, broker.url, "c1", COLLECTING) as collector:
        collector.wait_until_collecting()
        with Publisher(broker.port) as publisher:
            publisher.publish([n for n in range(500) if not 40 <= n < 45])
        until(lambda: len(rows_in(collector.lake)) == 495)
    Job(spark, JobOptions(collector.lake, once=True), JobCounters()).run()
    (gap,) = Upkeep(spark, collector.lake).audit(SilenceOptions())[GAPS].read().to_pylist()
    assert (gap["gw"], gap["epoch"], gap["first_seq"], gap["last_seq"]) == ("gh", 1, 40, 44)
