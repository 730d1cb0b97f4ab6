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

from spark_ingest.spark.errors import NoSessionError, first_line, unknown_name
from spark_ingest.spark.java import find_java
from spark_ingest.spark.mqtt_source import MqttStream
from spark_ingest.spark.server import open_at_server, server_of
from spark_ingest.spark.sink import GatewayDelta
from spark_ingest.spark.source import GatewayLog

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
WORKER_PYTHON = Path(__file__).with_name("worker-python.sh")
# All cores, and a task that fails is tried again: with plain `local` it would end the query.
HERE = "local[*,4]"
# Of every session, wherever its driver is.
USUAL = {
    "spark.sql.session.timeZone": "UTC",
    # Few rows go through a shuffle, and each partition of it is a task.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Progress of the last hours is in the metrics; Spark keeps it in memory.
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}
# There workers run in images with a Python of their own.
OF_IMAGES = "k8s://"
_LOCAL = re.compile(r"local(-cluster)?(\[.*\])?")


def open_session(name: str, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """`master` None leaves that to `spark-submit`. Raises NoSessionError, and NoJavaError."""
    if (server := server_of(master, conf, os.environ)) is not None:
        return _knowing_ours(open_at_server(name, server, {**USUAL, **conf}))
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:  # which spark-submit sets
        master = HERE
    is_local = master is not None and _LOCAL.fullmatch(master) is not None
    if is_local:
        # Else Spark takes the first `python3` of the PATH, in which nothing of ours may be.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        # All of it is in this process. Else Spark looks for the address of this machine's name, and
        # ends where the name has none, as on a machine that is not in its own /etc/hosts.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif master is not None and not master.startswith(OF_IMAGES):
        # As `spark-submit` has it: the configuration, the environment, and then what runs here.
        given = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
        os.environ["PYSPARK_PYTHON"] = given or sys.executable
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
            f"Spark does not start with master {master}: {first_line(error)}{unknown_name()}"
        ) from None
    if is_local and _can_start_quickly():
        spark.sparkContext.pythonExec = str(WORKER_PYTHON)
    return _knowing_ours(spark)


def _knowing_ours(spark: SparkSession) -> SparkSession:
    for source in (GatewayLog, GatewayDelta, MqttStream):
        spark.dataSource.register(source)
    return spark


def _can_start_quickly() -> bool:
    """Whether workers may have the driver's PySpark: files, and those of Spark's own Java. Of a zip
    of ours that `spark-submit` was given, nothing can be executed.
    """
    package = Path(pyspark.__file__).parent
    home = Path(os.environ.get("SPARK_HOME") or package)
    return package.is_dir() and home.resolve() == package and os.access(WORKER_PYTHON, os.X_OK)


def _usual(is_local: bool) -> dict[str, str]:
    usual = {**USUAL, "spark.ui.showConsoleProgress": "false"}
    if is_local:
        usual |= {
            "spark.ui.enabled": "false",
            # The host's name may resolve to an address that it has no more.
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
        }
    return usual
