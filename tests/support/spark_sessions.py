"""What all tests with Spark have: one session, and more time than others."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_ingest.spark.session import open_session

TIMEOUT_S = 400  # where other work goes on Spark takes ten times as long


def give_time(items: list[pytest.Item], folder: Path) -> None:
    """One that is cut off takes the session with it, and all tests behind it."""
    for item in items:
        if folder in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@contextmanager
def session(folder: Path, others: Mapping[str, str]) -> Iterator[SparkSession]:
    """`others`: settings beside those of all tests, which have a handful of rows each."""
    for name in ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    conf = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        **others,
    }
    opened = open_session("tests", "local[2,4]", conf)
    yield opened
    opened.stop()
