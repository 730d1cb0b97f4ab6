"""A Spark session as the job needs it, and clear words where none can be had."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_ingest.java import find_java
from spark_ingest.spark.mqtt_source import MqttStream
from spark_ingest.spark.sink import GatewayDelta
from spark_ingest.spark.source import GatewayLog

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
WORKER_PYTHON = Path(__file__).with_name("worker-python.sh")
# Few rows go through a shuffle, and each partition of it is a task.
SHUFFLE_PARTITIONS = 4
# All cores, and a task that fails is tried again: with plain `local` it would end the query.
HERE = "local[*,4]"
_LOCAL = re.compile(r"local(-cluster)?(\[.*\])?")


class NoSessionError(Exception):
    """Spark does not start, or its workers cannot run our code."""


def open_session(name: str, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """`master` None leaves that to `spark-submit`. Raises NoSessionError, and NoJavaError."""
    if "SPARK_REMOTE" in os.environ or "spark.remote" in conf or (master or "").startswith("sc://"):
        raise NoSessionError(
            "Spark Connect (sc://, SPARK_REMOTE, spark.remote) cannot run this: tables are "
            "committed where Spark's driver is; set spark.master to spark://, yarn or k8s://, or "
            "use spark-submit"
        )
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:  # which spark-submit sets
        master = HERE
    is_local = master is not None and _LOCAL.fullmatch(master) is not None
    if is_local:
        # Else Spark takes the first `python3` of the PATH, in which nothing of ours may be.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**_usual(is_local), **conf}.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise NoSessionError(
            f"Spark does not start with master {master}: {first_line(error)}"
        ) from None
    if is_local and _can_start_quickly():
        spark.sparkContext.pythonExec = str(WORKER_PYTHON)
    spark.dataSource.register(GatewayLog)
    spark.dataSource.register(GatewayDelta)
    spark.dataSource.register(MqttStream)
    return spark


def first_line(error: BaseException) -> str:
    """What a person can use of Spark's pages: the last exception in it, or the first line."""
    text = str(error)
    raised = re.findall(r"^(?:\w+\.)*(\w+Error)(?:: (.+))?$", text, re.MULTILINE)
    if raised:
        name, said = raised[-1]
        return str(said or name)
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _can_start_quickly() -> bool:
    """Whether workers may have the driver's PySpark: files, and those of Spark's own Java. Of a zip
    of ours that `spark-submit` was given, nothing can be executed.
    """
    package = Path(pyspark.__file__).parent
    home = Path(os.environ.get("SPARK_HOME") or package)
    return package.is_dir() and home.resolve() == package and os.access(WORKER_PYTHON, os.X_OK)


def _usual(is_local: bool) -> dict[str, str]:
    usual = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.ui.showConsoleProgress": "false",
        # Progress of the last hours is in the metrics; Spark keeps it in memory.
        "spark.sql.streaming.numRecentProgressUpdates": "20",
    }
    if is_local:
        usual |= {
            "spark.ui.enabled": "false",
            # The host's name may resolve to an address that it has no more.
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
        }
    return usual
