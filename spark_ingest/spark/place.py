"""Where a session's work is done: by a driver in this process, or one at a Spark Connect server."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession, is_remote
from pyspark.sql import functions as f

_SPLIT = 1000  # rows, far more than a cluster has cores


def place_of(spark: SparkSession) -> str:
    """As a person would name it; without secrets that are in its URL."""
    if is_remote():
        return f"the Spark Connect server {spark.client.host}"
    return str(spark.sparkContext.master)


def has_workers_elsewhere(spark: SparkSession) -> bool:
    """Whether they are other than the driver's own: its Python and its files."""
    return is_remote() or re.fullmatch(r"local(\[.*\])?", spark.sparkContext.master) is None


def stop_trying(spark: SparkSession) -> None:
    """After an error: calls to a server shall not wait for one that is gone."""
    if is_remote():
        spark.client.set_retry_policies([])


def cores_of(spark: SparkSession) -> int:
    """How many tasks Spark makes of what nobody has split."""
    if is_remote():  # where only the work itself shows it
        split = spark.range(_SPLIT).select(f.spark_partition_id().alias("part"))
        return int(split.distinct().count())
    return int(spark.sparkContext.defaultParallelism)
