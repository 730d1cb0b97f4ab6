"""`run`: the job that fills the tables."""

from __future__ import annotations

import argparse
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_ingest.cli.exit_codes import ExitCode
from spark_ingest.cli.serving import metrics_served
from spark_ingest.cli.with_spark import (
    add_spark_arguments,
    routes_of,
    spark_session,
    spark_settings,
)
from spark_ingest.config import Settings

if TYPE_CHECKING:
    from spark_ingest.spark.job import JobOptions
    from spark_ingest.spark.kafka_input import KafkaInput

HELP = "fill the tables from the segments, for ever or once"
EXAMPLE = "python -m spark_ingest run --config ingest.toml --once"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spark_arguments(parser)
    parser.add_argument(
        "--once", action="store_true", help="end when all is read that is there at the start"
    )


def run(arguments: argparse.Namespace) -> int:
    settings = spark_settings(arguments, begins=True)
    from spark_ingest.spark.job import Job
    from spark_ingest.spark.job_counters import JobCounters

    counters = JobCounters()
    listen = settings.spark.metrics_listen
    with spark_session(settings) as spark:
        options = job_options(settings, once=arguments.once)
        if settings.kafka.servers is not None:
            options = replace(options, input=kafka_input(settings, settings.kafka.servers))
        job = Job(spark, options, counters)
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, lambda *_: job.stop())
        with metrics_served(listen, "spark.metrics_listen", counters.registry):
            job.run()
    return ExitCode.OK


def kafka_input(settings: Settings, servers: str) -> KafkaInput:
    from spark_ingest.spark.kafka_input import KafkaInput

    return KafkaInput(
        servers=servers,
        topic=settings.kafka.topic,
        records_max=settings.spark.rows_max,
        fails_on_loss=not settings.spark.goes_on_without_lost_segments,
        options=settings.kafka.spark,
    )


def job_options(settings: Settings, *, once: bool) -> JobOptions:
    from spark_ingest.spark.job import JobOptions

    options = settings.spark
    return JobOptions(
        lake=settings.lake.folder.absolute(),
        query=options.name,
        routes=routes_of(settings),
        trigger_s=options.trigger_s,
        rows_max=options.rows_max,
        fails_on_loss=not options.goes_on_without_lost_segments,
        once=once,
        progress_file=options.progress_file,
    )
