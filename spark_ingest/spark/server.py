"""A session at a Spark Connect server, whose driver is there and not here.

What such a session cannot have are settings of the server itself, among them its jars.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_ingest.installing import brings
from spark_ingest.spark.errors import NoSessionError, first_line

SCHEME = "sc://"
NEEDED = ("grpc", "grpc_status", "google.rpc", "zstandard")
ANSWER_S_MAX = 10.0
# Of a call without an answer: 35 s. Spark's own 10 minutes only pay where a server keeps sessions
# while it is away, and it does not.
RETRIES_MAX, BACKOFF_MS_MAX = 7, 10_000


def server_of(
    master: str | None, conf: Mapping[str, str], environment: Mapping[str, str]
) -> str | None:
    """Its address, if the session shall be at one. Raises NoSessionError."""
    named = {
        "spark.master": master,
        "spark.remote in spark.conf": conf.get("spark.remote"),
        "SPARK_REMOTE": environment.get("SPARK_REMOTE"),
    }
    given = {name: value for name, value in named.items() if value is not None}
    servers = [value for name, value in given.items() if name != "spark.master"]
    if master is not None and master.startswith(SCHEME):
        servers.insert(0, master)
    if not servers:
        return None
    if len(set(given.values())) > 1:
        raise NoSessionError(f"{' and '.join(given)} name different places; leave one of them")
    return servers[0]


def open_at_server(name: str, server: str, conf: Mapping[str, str]) -> SparkSession:
    """Raises NoSessionError."""
    missing = [each for each in NEEDED if not _is_there(each)]
    if missing:
        raise NoSessionError(
            f"Spark Connect needs {', '.join(missing)}:  {brings('connect', *missing)}"
        )
    _must_answer(server)
    builder = SparkSession.builder.remote(server).appName(name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except PySparkException as error:
        raise NoSessionError(f"no session at {shown(server)}: {first_line(error)}") from None
    from pyspark.sql.connect.client.retries import DefaultPolicy

    policy = DefaultPolicy(max_retries=RETRIES_MAX, max_backoff=BACKOFF_MS_MAX)
    spark.client.set_retry_policies([policy])
    return spark


def shown(server: str) -> str:
    """Without its parameters, one of which may be a token."""
    return server.partition("/;")[0]


def _must_answer(server: str) -> None:
    """PySpark would try for ten minutes without a word."""
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        channel = DefaultChannelBuilder(server).toChannel()
    except PySparkException as error:
        raise NoSessionError(f"{shown(server)}: {first_line(error)}") from None
    try:
        grpc.channel_ready_future(channel).result(ANSWER_S_MAX)
    except grpc.FutureTimeoutError:
        raise NoSessionError(
            f"no Spark Connect server answers at {shown(server)} within {ANSWER_S_MAX:.0f} s; "
            "sbin/start-connect-server.sh of Spark starts one"
        ) from None
    finally:
        channel.close()


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it would be in
        return False
