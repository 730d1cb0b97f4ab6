"""A Kafka of each module's own, and a Spark session with its connector for all of them."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hil.rig.mosquitto import Mosquitto
from spark_ingest.spark.session import open_session
from tests.support.kafka import KafkaBroker, jars_folder

TIMEOUT_S = 400
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    for name in ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    folder = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.jars": ",".join(str(each) for each in (jars_folder() / "spark").glob("*.jar")),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
    }
    session = open_session("tests", "local[2,4]", conf)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """Of one test; it is not there yet."""
    return f"readings-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto(["max_queued_messages 0"]) as running:
        yield running
