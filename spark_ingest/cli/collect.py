"""`collect`: the collector, from its configuration to its end."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_ingest.cli.exit_codes import ExitCode, VerbError, of_os_error
from spark_ingest.cli.serving import metrics_served
from spark_ingest.cli.sources import add_source_arguments, settings_from
from spark_ingest.config import ConfigError, Settings
from spark_ingest.segments.segment import missing_pyarrow

if TYPE_CHECKING:
    from spark_ingest.collect.collector import Collector
    from spark_ingest.segments.writing import Writer

SECONDS_MAX = 86_400
HELP = "collect messages from the broker, and acknowledge them when they are safe"
EXAMPLE = "python -m spark_ingest collect --config ingest.toml --set collector.name=second"

log = logging.getLogger("tidegate.ingest")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source_arguments(parser)
    parser.add_argument("--name", help="same as --set collector.name=...")
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument(
        "--until-idle", type=_seconds, metavar="S",
        help="end when nothing has come for S seconds; the broker goes on keeping our share",
    )  # fmt: skip
    ends.add_argument(
        "--retire", action="store_true",
        help="leave the group for good: collect what waits for this collector, then end its "
        "session, so that the others get everything",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    if arguments.name is not None:
        arguments.overrides.append(f"collector.name={arguments.name}")
    settings = settings_from(arguments)
    if (missing := _missing_package(settings)) is not None:
        raise VerbError(ExitCode.UNAVAILABLE, missing)
    _configure_log(settings.log.level)
    from spark_ingest.collect.collector import RefusedError
    from spark_ingest.kafka.topic import TopicRefusedError
    from spark_ingest.segments.shelf import TakenError

    try:
        with _collector(settings, arguments) as collector:
            _run(collector)
    except ConfigError as error:
        raise VerbError(ExitCode.CONFIGURATION, str(error)) from None
    except (TakenError, RefusedError, TopicRefusedError) as error:
        raise VerbError(ExitCode.UNAVAILABLE, str(error)) from None
    return ExitCode.OK


def _missing_package(settings: Settings) -> str | None:
    if settings.kafka.servers is None:
        return missing_pyarrow()
    from spark_ingest.kafka.topic import missing_client

    return missing_client()


@contextmanager
def _collector(settings: Settings, arguments: argparse.Namespace) -> Iterator[Collector]:
    from spark_ingest.collect import assembly
    from spark_ingest.collect.collector import RETIRE_IDLE_S, Collector, EndWhen
    from spark_ingest.collect.counters import Counters

    end_when = EndWhen.RETIRED if arguments.retire else EndWhen.NEVER
    if arguments.until_idle is not None:
        end_when = EndWhen.IDLE
    options = assembly.collector_options(settings, end_when, arguments.until_idle or RETIRE_IDLE_S)
    counters = Counters()
    open_writer = _segment_writer if settings.kafka.servers is None else _kafka_writer
    with (
        open_writer(settings) as writer,
        metrics_served(settings.metrics.listen, "metrics.listen", counters.registry),
    ):
        subscriptions = assembly.subscriptions(settings, options.session)
        subscriptions.begin()
        session = replace(options.session, former=subscriptions.former)
        yield Collector(replace(options, session=session), writer, counters, subscriptions)


@contextmanager
def _segment_writer(settings: Settings) -> Iterator[Writer]:
    from spark_ingest.collect import assembly
    from spark_ingest.segments.shelf import Shelf
    from spark_ingest.segments.writing import SegmentWriter

    shelf = Shelf(settings.lake.folder, settings.collector.name)
    try:
        shelf.__enter__()
    except OSError as error:
        raise of_os_error(error, str(error.filename or shelf.folder)) from None
    try:
        writer = SegmentWriter(shelf, assembly.registry(settings), assembly.row_options(settings))
        writer.remember()
        log.info("segments go to %s from number %d on", shelf.folder, shelf.next_number)
        yield writer
    finally:
        shelf.__exit__()


@contextmanager
def _kafka_writer(settings: Settings) -> Iterator[Writer]:
    from spark_ingest.collect import assembly
    from spark_ingest.kafka.writer import KafkaWriter

    writer = KafkaWriter(
        options=assembly.kafka_options(settings), registry=assembly.registry(settings),
        row_options=assembly.row_options(settings), lake=settings.lake.folder,
    )  # fmt: skip
    writer.remember()
    log.info("records go to the topic %s of Kafka at %s",
             settings.kafka.topic, settings.kafka.servers)  # fmt: skip
    yield writer


def _run(collector: Collector) -> None:
    async def until_stopped() -> None:
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, collector.stop)
        await collector.run()

    with asyncio.Runner(loop_factory=_fastest_loop) as runner:
        runner.run(until_stopped())


def _fastest_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # it has no build for this machine
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _configure_log(level: str) -> None:
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(levelname)-7s %(name)s %(message)s"
    )
    logging.getLogger("tidegate").setLevel(level.upper())


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= SECONDS_MAX:
        raise argparse.ArgumentTypeError(
            f"expected seconds, more than 0 and up to {SECONDS_MAX}, got {text!r}"
        )
    return seconds
