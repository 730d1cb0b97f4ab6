"""What the verbs that ask a running gateway have in common: its address, and its absence."""

import argparse
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from gateway.admin.durations import duration
from gateway.app.exit_codes import ExitCode
from gateway.cli.output import print_error, print_line
from gateway.cli.sources import add_source_arguments, usable_configuration

HINT = "start one with `tidegate run`, or say where it is with --config or --set admin.listen"

EPILOG = """
The running gateway is asked on its socket (admin.socket), else at admin.listen
of its configuration. Without --config that is /etc/tidegate/config.toml, or
127.0.0.1:8080; --set admin.listen=HOST:PORT asks another one. Exit code 69:
none answers.
"""

Ask = Callable[..., dict[str, Any]]


def add_live_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    add_source_arguments(parser)
    parser.add_argument("--json", action="store_true", help="answer in JSON, on stdout")


def ask_and_show(
    arguments: argparse.Namespace,
    path: str,
    schema: str,
    asked: Mapping[str, str | int],
    show: Callable[[Mapping[str, Any]], int],
) -> int:
    """`show` prints the answer for people and says how the verb ends."""
    from gateway.cli import asking  # brings http.client with it

    configuration = usable_configuration(arguments)
    if configuration is None:
        return ExitCode.CONFIGURATION
    try:
        answer = asking.ask(asking.place_of(configuration), path, schema, asked)
    except asking.NoAnswerError as reason:
        print_error(f"tidegate {arguments.verb}: {reason}; {HINT}")
        return ExitCode.UNAVAILABLE
    if arguments.json:
        print_line(json.dumps(answer, indent=2))
        return ExitCode.OK
    return show(answer)


def printable(text: str) -> str:
    """What a peer chose, safe for a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def ago(seconds: float) -> str:
    return f"{duration(seconds)} ago"


def clock(unix_s: float, now_unix_s: float) -> str:
    """`14:32:05`, with the day where it is another than today's."""
    then = datetime.fromtimestamp(unix_s, UTC).astimezone()
    today = datetime.fromtimestamp(now_unix_s, UTC).astimezone()
    return then.strftime("%H:%M:%S" if then.date() == today.date() else "%b %-d %H:%M")


def counted(count: int, noun: str) -> str:
    """`1 message`, `2 messages`"""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size(count: float) -> str:
    """`512 B`, `3.4 KiB`"""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024 or unit == "MiB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("MiB is the last")
