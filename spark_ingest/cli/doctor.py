"""`doctor`: is everything there that is needed, and does it fit together?"""

from __future__ import annotations

import argparse
import importlib.util
import os
import socket
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from spark_ingest.cli.exit_codes import ExitCode, VerbError
from spark_ingest.cli.segments import summary_of
from spark_ingest.cli.sources import add_source_arguments, settings_from
from spark_ingest.config import Settings
from spark_ingest.installing import brings, installs
from spark_ingest.segments.segment import missing_pyarrow
from spark_ingest.segments.shelf import SEGMENTS, collectors_in

HELP = "check what is installed, the lake, its tables and the broker, and say what to do"
EXAMPLE = "python -m spark_ingest doctor --config ingest.toml --spark"

PYTHON_OLDEST = (3, 11)
SPARK_OLDEST = (4, 2)  # the first that asks Python sources how much to read
CONNECT_S_MAX = 3.0

Check = Callable[[Settings], Iterator[str]]


class BadError(Exception):
    """What is wrong, and what to do about it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source_arguments(parser)
    parser.add_argument(
        "--spark",
        action="store_true",
        help="start Spark too, and ask its workers whether they can do our work",
    )


def run(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments, collects=False)
    source = _segments if settings.kafka.servers is None else _kafka
    checks: list[Check] = [_python, _packages, _java, source, _tables, _broker]
    if arguments.spark:
        checks.append(_spark)
    bad = 0
    for check in checks:
        try:
            for line in check(settings):
                print(f"ok    {line}")
        except BadError as problem:
            bad += 1
            print(f"BAD   {problem}")
        except VerbError as problem:
            bad += 1
            print(f"BAD   {problem}")
    return ExitCode.FAILURE if bad else ExitCode.OK


def _python(_settings: Settings) -> Iterator[str]:
    if sys.version_info < PYTHON_OLDEST:
        raise BadError(f"Python {sys.version.split()[0]}: 3.11 or newer is needed")
    workers = os.environ.get("PYSPARK_PYTHON")
    if workers is not None and Path(workers).resolve() != Path(sys.executable).resolve():
        raise BadError(
            f"PYSPARK_PYTHON is {workers}, this is {sys.executable}: on a cluster both must be of "
            "one version and have this package; on one machine unset it"
        )
    yield f"Python {sys.version.split()[0]}"


def _packages(_settings: Settings) -> Iterator[str]:
    if (missing := missing_pyarrow()) is not None:
        raise BadError(missing)
    for name in ("pyarrow", "pyspark", "deltalake", "pandas"):
        try:
            found = version(name)
        except PackageNotFoundError:
            raise BadError(f"{name} is not installed:  {brings('spark', name)}") from None
        numbers = tuple(int(each) for each in found.split(".")[:2] if each.isdecimal())
        if name == "pyspark" and numbers < SPARK_OLDEST:
            raise BadError(f"pyspark {found}: 4.2 or newer is needed")
        if name == "pandas" and numbers >= (3,):
            raise BadError(
                f"pandas {found}: PySpark does not support 3 yet:  {installs('pandas<3')}"
            )
        yield f"{name} {found}"


def _java(settings: Settings) -> Iterator[str]:
    from spark_ingest.spark.java import NoJavaError, find_java

    if (server := _connect_server(settings)) is not None:
        yield f"no Java is needed here: Spark is at {server}"
        return
    try:
        java = find_java(os.environ)
    except NoJavaError as error:
        raise BadError(str(error)) from None
    yield f"Java {java.version} of {java.origin}, {java.home}"


def _connect_server(settings: Settings) -> str | None:
    if importlib.util.find_spec("pyspark") is None:  # which another check says
        return None
    from spark_ingest.spark.errors import NoSessionError
    from spark_ingest.spark.server import server_of, shown

    try:
        server = server_of(settings.spark.master, settings.spark.conf, os.environ)
    except NoSessionError as error:
        raise BadError(str(error)) from None
    return None if server is None else shown(server)


def _segments(settings: Settings) -> Iterator[str]:
    lake = settings.lake.folder
    if not lake.exists():
        raise BadError(f"{lake} does not exist; `collect` makes it, the path is lake.path")
    if not os.access(lake, os.W_OK):
        raise BadError(f"{lake} cannot be written by this user")
    collectors = collectors_in(lake)
    if not collectors:
        raise BadError(f"{lake / SEGMENTS}: no collector has written anything yet")
    for collector in collectors:
        summary = summary_of(lake, collector)
        if summary.damaged:
            raise BadError(f"{summary.damaged[0]}; bring it back from a backup under the same name")
        if summary.missing:
            raise BadError(
                f"{lake / SEGMENTS / collector}: segments {summary.missing[0]} and others are "
                "missing between those that are there; bring them back from a backup"
            )
        yield f"{collector}: {summary.segments} segments, {summary.messages} messages"


def _kafka(settings: Settings) -> Iterator[str]:
    from spark_ingest.collect import assembly
    from spark_ingest.kafka.topic import Topic, TopicRefusedError, missing_client

    if (missing := missing_client()) is not None:
        raise BadError(missing)
    try:
        yield Topic(assembly.kafka_options(settings)).described()
    except TopicRefusedError as error:
        raise BadError(str(error)) from None
    except OSError as error:
        raise BadError(f"{error.filename}: {error.strerror}; kafka.servers says where") from None


def _tables(settings: Settings) -> Iterator[str]:
    from spark_ingest.tables.checkpoint import Checkpoint, CheckpointError
    from spark_ingest.tables.delta.table import Table, TableError
    from spark_ingest.tables.tables import checkpoint_folder, core, table_folder

    lake = settings.lake.folder
    checkpoint = Checkpoint(checkpoint_folder(lake, settings.spark.name))
    if checkpoint.last_batch is None:
        yield "no batch has been written yet"
        return
    try:
        for each in core():
            folder = table_folder(lake, each.name)
            if not folder.exists():
                raise BadError(
                    f"{folder} is gone, and {checkpoint.folder} says that it was written"
                )
            table = Table(folder, each.schema())
            table.must_belong_to(checkpoint.app, checkpoint.folder)
            at = table.version_of(checkpoint.app)
            if at is None or at < checkpoint.last_batch:
                raise BadError(
                    f"{folder} is at batch {at}, its checkpoint at {checkpoint.last_batch}"
                )
            yield f"{each.name}: batch {at}, {len(table.paths())} files"
    except (TableError, CheckpointError) as error:
        raise BadError(str(error)) from None


def _broker(settings: Settings) -> Iterator[str]:
    broker = settings.broker.url
    try:
        socket.create_connection((broker.host, broker.port), CONNECT_S_MAX).close()
    except OSError as error:
        raise BadError(f"{broker}: {error.strerror or error}; only `collect` needs it") from None
    yield f"{broker} takes connections"


def _spark(settings: Settings) -> Iterator[str]:
    from spark_ingest.cli.with_spark import configure_log, must_have_spark, spark_session

    must_have_spark()
    from spark_ingest.spark.place import place_of

    configure_log("warning")
    with spark_session(settings, checks_workers=True) as spark:
        yield f"Spark {spark.version} at {place_of(spark)} runs our Python"
