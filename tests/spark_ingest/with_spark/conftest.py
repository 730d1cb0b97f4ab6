"""One Spark session for all of these tests: it takes ten seconds to start, and a gigabyte."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.spark_sessions import give_time, session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    give_time(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    # Java's programs here end before the second compiler's work would pay.
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        os.environ[name] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    # What is generated for a test runs once.
    interpreted = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    with session(tmp_path_factory.mktemp("spark"), interpreted) as opened:
        yield opened
