"""`tidegate watch`: readings as they arrive at the broker, decoded."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.app.exit_codes import ExitCode
from gateway.cli.numbers import whole_number
from gateway.cli.output import print_error
from gateway.cli.sources import add_source_arguments, usable_configuration
from gateway.config import Settings
from gateway.config.kinds import MismatchError

if TYPE_CHECKING:
    from gateway.cli.watch.choice import Choice
    from gateway.cli.watch.reading import Reading

COUNT_MAX = 1_000_000_000
SECONDS_MAX = 31 * 86_400.0
CLIENT_ID_SUFFIX = "-watch-"
EPILOG = """
Each line has the time of arrival, the sensor, the topic, the QoS, the age of
the reading and what it says; SenML is decoded. A sensor of - is another
publisher at the broker. FILTER is an MQTT filter, such as greenhouse/#, or
the name of one sensor or topic. Topics are written as sensors write them,
without upstream.topic_prefix. Without FILTER all readings are shown: all
topics but those below tidegate/ and of Home Assistant's discovery.

The broker is the one of the configuration, with its user, password and
certificates; the gateway itself is not asked, and need not run.

Exit code 0 when --count is reached or --for is over, 1 if fewer came than
--count, 77 if the broker refuses, 130 after Ctrl-C.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    parser.add_argument(
        "filter", metavar="FILTER", nargs="?", help="an MQTT filter, or the name of a sensor"
    )
    add_source_arguments(parser)
    parser.add_argument(
        "-n",
        "--count",
        metavar="N",
        type=whole_number(1, COUNT_MAX),
        help="end after N readings",
    )
    parser.add_argument(
        "--for", metavar="SECONDS", dest="seconds", type=_seconds, help="end after so long"
    )
    parser.add_argument(
        "--json", action="store_true", help="a JSON object in each line, with the whole payload"
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if 0 < seconds <= SECONDS_MAX:
        return seconds
    message = f"{text[:20]!r} is not a number of seconds above 0, up to {SECONDS_MAX:.0f}"
    raise argparse.ArgumentTypeError(message)


def run(arguments: argparse.Namespace) -> int:
    from gateway.cli.watch.choice import choice_of

    configuration = usable_configuration(arguments)
    if configuration is None:
        return ExitCode.CONFIGURATION
    settings = configuration.settings
    try:
        choice = choice_of(arguments.filter, settings)
    except MismatchError as error:
        print_error(f"tidegate watch: {error}")
        return ExitCode.USAGE
    return _watch(arguments, settings, choice)


def _watch(arguments: argparse.Namespace, settings: Settings, choice: "Choice") -> int:
    import asyncio
    import logging

    from gateway.app.credentials import read_credentials, with_stored
    from gateway.cli.watch.watching import CLOSE_S_MAX, LinkLines, Wanted, Watching
    from gateway.config.credential import stored_at
    from gateway.transports.errors import LinkError

    near = with_stored(settings)
    try:
        credentials = read_credentials(near)
        if settings.upstream.password_file is not None and near.upstream.password_file is None:
            stored = stored_at(settings.upstream.password_file)
            raise LinkError(f"upstream.password_file {stored} cannot be read")
    except LinkError as error:
        print_error(f"tidegate watch: {error}: run this with sudo")
        return ExitCode.PERMISSION
    broker_log = logging.getLogger("tidegate.broker")
    broker_log.addHandler(LinkLines())
    broker_log.setLevel(logging.INFO)
    broker_log.propagate = False
    if arguments.filter is not None:
        _doubt_in_the_background(settings, arguments.filter)
    wanted = Wanted(
        upstream=settings.upstream,
        credentials=credentials,
        client_id=f"{settings.upstream.client_id}{CLIENT_ID_SUFFIX}{os.urandom(3).hex()}",
        choice=choice,
        text=_as_json if arguments.json else _for_people(),
        encoding=sys.stdout.encoding or "utf-8",
        count=arguments.count,
        seconds=arguments.seconds,
    )
    watching = Watching(wanted)
    try:
        code = asyncio.run(watching.run())
        watching.finish(None)
    except KeyboardInterrupt:
        watching.finish(CLOSE_S_MAX)
        raise
    return code


def _doubt_in_the_background(settings: Settings, wanted: str) -> None:
    from gateway.cli.watch.choice import is_name
    from gateway.cli.watch.known import doubt
    from gateway.host.limits import start_thread

    def look() -> None:
        sentence = doubt(settings, wanted, is_filter=not is_name(wanted))
        if sentence is not None:
            print_error(f"tidegate watch: {sentence}")

    start_thread(look, "names that are known")


def _as_json(reading: "Reading") -> str:
    from gateway.cli.watch.reading import as_json

    return json.dumps(as_json(reading)) + "\n"


def _for_people() -> "Callable[[Reading], str]":
    from gateway.cli.tables import terminal_columns
    from gateway.cli.watch.lines import Lines

    lines = Lines(has_colours=_has_colours())
    return lambda reading: lines.of(reading, terminal_columns())


def _has_colours() -> bool:
    is_plain = "NO_COLOR" in os.environ or os.environ.get("TERM", "dumb") == "dumb"
    return sys.stdout.isatty() and not is_plain
