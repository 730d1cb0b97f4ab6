"""`tidegate demo`: the whole of Tidegate on one machine, shown in the terminal.

A real mosquitto, the real gateway and simulated sensors that speak MQTT-SN over real UDP. Only the
verb is here; `demo` says what runs in which order. What the demo needs beyond the gateway itself
(aiomqtt, rich) is imported when it runs, so that the other verbs start without it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import sys
import time
from typing import TYPE_CHECKING

from gateway.app.exit_codes import ExitCode
from gateway.cli.demo.failure import DemoError
from gateway.cli.output import print_error, print_line

if TYPE_CHECKING:
    from gateway.cli.demo.play import Demo
    from gateway.cli.demo.screen import Screen

SENSORS_DEFAULT = 5
SENSORS_MAX = 200
SECONDS_MAX = 86_400.0

EPILOG = """
Only 127.0.0.1 is used and nothing is left behind. The exit code is 0 when
readings came up from every sensor and a command went down and was confirmed,
or when Ctrl-C ends a demo that has no --seconds; 1 when one of the two ways
is missing or a part failed.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    parser.add_argument(
        "--sensors",
        type=_sensors,
        default=SENSORS_DEFAULT,
        metavar="N",
        help=f"simulated sensors, 1 to {SENSORS_MAX} (default: {SENSORS_DEFAULT})",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        metavar="N",
        help="end after N seconds and judge by the exit code (default: run until Ctrl-C)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of all random values (default: 1)")
    parser.add_argument(
        "--plain", action="store_true", help="one line per message, also in a terminal"
    )
    parser.add_argument("--json", action="store_true", help="print only a summary, as JSON")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and state")


def run(arguments: argparse.Namespace) -> int:
    table = not (arguments.json or arguments.plain) and sys.stdout.isatty()
    try:
        _require("aiomqtt", *(["rich"] if table else []))
        demo = _demo(arguments, _screen(arguments.json, table))
        began = time.monotonic()
        failure = _perform(demo)
    except DemoError as failed:
        _print_failure(failed)
        return failed.code
    if failure is not None:
        _print_failure(failure)
        _print_kept_folder(demo, arguments.keep)
        return failure.code
    _show_summary(demo, time.monotonic() - began, arguments)
    problem = demo.seen.missing()
    if problem is not None and arguments.seconds is not None:
        print_error(problem)
        return ExitCode.FAILURE
    return ExitCode.OK


def _perform(demo: Demo) -> DemoError | None:
    try:
        asyncio.run(demo.run())
    except DemoError as failure:
        return failure
    return None


def _demo(arguments: argparse.Namespace, screen: Screen) -> Demo:
    from gateway.cli.demo.play import Demo

    return Demo(
        sensors=arguments.sensors,
        seconds=arguments.seconds,
        seed=arguments.seed,
        keep=arguments.keep,
        screen=screen,
    )


def _screen(as_json: bool, table: bool) -> Screen:
    from gateway.cli.demo.screen import Lines, Silence

    if as_json:
        return Silence()
    if table:
        from rich.console import Console

        from gateway.cli.demo.table import LiveTable

        return LiveTable(Console())  # obeys NO_COLOR by itself
    return Lines(print_line)


def _show_summary(demo: Demo, seconds: float, arguments: argparse.Namespace) -> None:
    from gateway.cli.demo.summary import summary_json, summary_lines

    if arguments.json:
        kept = demo.folder if arguments.keep else None
        print_line(json.dumps(summary_json(demo.seen, seconds, kept), indent=2))
    else:
        print_line("\n".join(["", *summary_lines(demo.seen)]))
    _print_kept_folder(demo, arguments.keep)


def _print_kept_folder(demo: Demo, keep: bool) -> None:
    if keep and demo.folder is not None:
        print_error(f"Logs and state are kept in {demo.folder}")


def _print_failure(failure: DemoError) -> None:
    print_error(f"tidegate demo: {failure}")
    if failure.evidence:
        print_error("The last lines of its log:")
        for line in failure.evidence.splitlines():
            print_error(f"  {line}")


def _require(*names: str) -> None:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        from gateway.host.installation import Installation

        raise DemoError(
            f"The demo needs packages that are not installed: {', '.join(missing)}. Install them "
            f"with:\n  {Installation.this().adding('demo', 'demo')}",
            code=ExitCode.UNAVAILABLE,
        )


def _sensors(text: str) -> int:
    with contextlib.suppress(ValueError):
        if 1 <= int(text) <= SENSORS_MAX:
            return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {SENSORS_MAX}")


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) <= SECONDS_MAX:
            return float(text)
    raise argparse.ArgumentTypeError(
        f"{text!r} is not a number of seconds, more than 0 and up to {SECONDS_MAX:g}"
    )
