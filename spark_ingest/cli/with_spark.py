"""What the verbs that need Spark have in common: is it there, a session, and its errors as ours."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from spark_ingest.cli.exit_codes import ExitCode, VerbError, of_os_error
from spark_ingest.cli.sources import add_source_arguments, settings_from
from spark_ingest.config import Settings
from spark_ingest.installing import brings
from spark_ingest.segments.shelf import SEGMENTS
from spark_ingest.tables.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("pyarrow", "pyspark", "deltalake", "pandas")
# They log at INFO what is of use to their own authors only.
QUIET = ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger")
# What PySpark warns of in pages, and what the job's last line says as well.
QUIET_WARNINGS = (r"\[RETRIES_EXCEEDED\]", "StreamingQueryListenerBus", "Failed to remove the li")


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    add_source_arguments(parser)
    parser.add_argument("--master", help="same as --set spark.master=...")


def spark_settings(arguments: argparse.Namespace, *, begins: bool = False) -> Settings:
    """After a look whether Spark is installed at all. `begins`: tables need not be there yet."""
    must_have_spark()
    if arguments.master is not None:
        arguments.overrides.append(f"spark.master={arguments.master}")
    settings = settings_from(arguments, collects=False)
    configure_log(settings.log.level)
    _must_be_lake(settings, begins=begins)
    return settings


def routes_of(settings: Settings) -> dict[str, str]:
    """Conditions by table."""
    return {each.name: each.where for each in settings.route}


def must_have_spark() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise VerbError(
            ExitCode.UNAVAILABLE,
            f"this needs Spark, and {', '.join(missing)} is not installed:  "
            f"{brings('spark', *missing)}",
        )


@contextmanager
def spark_session(settings: Settings, *, checks_workers: bool = False) -> Iterator[SparkSession]:
    """Any error of Spark, the lake or the tables inside is a VerbError.

    `checks_workers`: even where they are the driver's own.
    """
    from spark_ingest.spark.place import has_workers_elsewhere
    from spark_ingest.spark.session import open_session
    from spark_ingest.spark.workers import must_do_our_work

    options = settings.spark
    with errors_converted():
        spark = open_session(f"tidegate {options.name}", options.master, options.conf)
        try:
            if checks_workers or has_workers_elsewhere(spark):
                must_do_our_work(spark, settings.lake.folder.absolute())
            yield spark
        finally:
            with suppress(Exception):  # what was done is done, and Java may be gone
                spark.stop()


@contextmanager
def errors_converted() -> Iterator[None]:
    from pyspark.errors import PySparkException

    from spark_ingest.segments.consumers import ConsumerError
    from spark_ingest.segments.lake import SegmentLostError
    from spark_ingest.spark.errors import NoSessionError, first_line
    from spark_ingest.spark.inputs import InputError
    from spark_ingest.spark.java import NoJavaError
    from spark_ingest.spark.job import JobError
    from spark_ingest.spark.pipeline import RouteError
    from spark_ingest.tables.checkpoint import CheckpointError
    from spark_ingest.tables.delta.table import TableError

    try:
        yield
    except RouteError as error:
        raise VerbError(ExitCode.CONFIGURATION, str(error)) from None
    except (CheckpointError, NoSessionError, NoJavaError) as error:
        raise VerbError(ExitCode.UNAVAILABLE, str(error)) from None
    except (TableError, ConsumerError, SegmentLostError, InputError, JobError) as error:
        raise VerbError(ExitCode.FAILURE, str(error)) from None
    except PySparkException as error:
        raise VerbError(ExitCode.FAILURE, first_line(error)) from None
    except OSError as error:
        raise of_os_error(error, str(error.filename or "the lake")) from None


def configure_log(level: str) -> None:
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(levelname)-7s %(name)s %(message)s"
    )
    logging.getLogger("tidegate").setLevel(level.upper())
    for beginning in QUIET_WARNINGS:
        warnings.filterwarnings("ignore", beginning)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _must_be_lake(settings: Settings, *, begins: bool) -> None:
    """Before Spark takes its ten seconds to start."""
    if settings.kafka.servers is not None:
        tables = settings.lake.folder / TABLES
        if not begins and not tables.is_dir():
            raise VerbError(
                ExitCode.FAILURE, f"{tables} is not there: python -m spark_ingest run fills it"
            )
        return
    if not (settings.lake.folder / SEGMENTS).is_dir():
        raise VerbError(
            ExitCode.FAILURE,
            f"{settings.lake.folder} has no folder {SEGMENTS!r}: nothing has been collected there; "
            "begin with  python -m spark_ingest collect  or look at  python -m spark_ingest demo",
        )
