"""`tidegate serial`: the serial lines of the running gateway, and lending a port for a while."""

import argparse
from collections.abc import Mapping
from math import ceil
from typing import Any

from gateway.admin.http.answers import STATUS_SCHEMA
from gateway.admin.http.operating import RELEASE_MINUTES_MAX
from gateway.app.exit_codes import ExitCode
from gateway.cli.arguments import Actions, add_action, add_password_file
from gateway.cli.live import add_live_arguments, ask_and_show, printable
from gateway.cli.numbers import seconds_in
from gateway.cli.output import put
from gateway.cli.sources import add_source_arguments
from gateway.cli.tables import Column, table, terminal_columns

SCHEMA = "tidegate.serial/1"
COLUMNS = (
    Column("link"),
    Column("port", is_name=True),
    Column("state", 1),
    Column("good", 2, right=True),
    Column("damaged", 3, right=True),
    Column("sent", 4, right=True),
)
MINUTES_DEFAULT = 10.0

EPILOG = """
While a port is released another program can have it: `tidegate flash`, esptool,
a terminal. For the sensors behind it that is a pulled cable; their sessions and
what waits for them stay. The gateway opens it again by itself when the time is
over, and whenever it is started. It asks for the password of the status page:
the verb takes it from admin.password_file, from --password-file, or as you
type it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_live_arguments(parser)
    parser.epilog = f"{parser.epilog or ''}{EPILOG}"
    actions = parser.add_subparsers(
        dest="action",
        metavar="ACTION",
        title="actions",
        description="Without one: the lines, how each is, and how many frames came and went.",
    )
    release = _add_action(actions, "release", "let another program have a port for a while")
    release.add_argument(
        "--for",
        dest="minutes",
        type=minutes,
        default=MINUTES_DEFAULT,
        metavar="TIME",
        help=f"such as 90s, 5m or 1h, at most {RELEASE_MINUTES_MAX // 60}h (default: 10m)",
    )
    _add_action(actions, "resume", "have a port back that was released")


def _add_action(actions: Actions, name: str, help_: str) -> argparse.ArgumentParser:
    action = add_action(actions, name, help_)
    action.add_argument("port", metavar="PORT", help="serial0, or the port's name or path")
    add_source_arguments(action, is_repeated=True)
    add_password_file(action)
    return action


def minutes(text: str) -> float:
    request = (seconds_in(text) or 0) / 60
    if not 0 < request <= RELEASE_MINUTES_MAX:
        most = f"{RELEASE_MINUTES_MAX // 60}h"
        raise argparse.ArgumentTypeError(f"such as 90s, 5m or 1h, at most {most}, not {text!r}")
    return request


def run(arguments: argparse.Namespace) -> int:
    if arguments.action is None:
        return ask_and_show(arguments, "/api/status", STATUS_SCHEMA, {}, show)
    return _act(arguments, arguments.minutes if arguments.action == "release" else 0.0)


def _act(arguments: argparse.Namespace, for_minutes: float) -> int:
    from gateway.cli import acting  # brings http.client with it

    asked = {"line": arguments.port, "minutes": for_minutes}
    return acting.act_and_show(arguments, SCHEMA, "release", asked)


def show(answer: Mapping[str, Any]) -> int:
    rows = [_row(link) for link in answer["links"] if link["line"] is not None]
    if not rows:
        put("no serial lines; a [[serial]] in the configuration is one\n")
        return ExitCode.OK
    for line in table(COLUMNS, rows, terminal_columns()):
        put(f"{line}\n")
    return ExitCode.OK


def _row(link: Mapping[str, Any]) -> tuple[str, ...]:
    line = link["line"]
    damaged = sum(line["frames"].values()) - line["frames"]["good"]
    port = printable(link["listening_on"])
    good, sent = str(line["frames"]["good"]), str(link["datagrams_sent"])
    return link["name"], port, _state(line), good, str(damaged), sent


def _state(line: Mapping[str, Any]) -> str:
    if line["released_s"] is not None:
        return f"released for {ceil(line['released_s'] / 60)} min more"
    return line["problem"] or ("open" if line["is_open"] else "closed")
