"""A Kafka of each module's own, and a Spark session with its connector for all of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hil.rig.mosquitto import Mosquitto
from tests.support.kafka import KafkaBroker, connector
from tests.support.spark_sessions import give_time, session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    give_time(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session(tmp_path_factory.mktemp("spark"), {"spark.jars": connector()}) as opened:
        yield opened


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
