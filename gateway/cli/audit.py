"""`tidegate audit`: who changed what, when and from where, out of the state folder."""

import argparse
import json
import pwd
import time
from datetime import UTC, datetime
from typing import Any

from gateway.app.exit_codes import ExitCode
from gateway.cli.live import printable
from gateway.cli.numbers import seconds_in
from gateway.cli.output import print_error, print_line, put
from gateway.cli.sources import add_source_arguments, usable_configuration
from gateway.cli.tables import Column, table, terminal_columns
from gateway.host.causes import brief
from gateway.storage.audit_log import read

COLUMNS = (
    Column("time"),
    Column("who", is_name=True),
    Column("from", 3),
    Column("via", 4),
    Column("what"),
    Column("of", 2, is_name=True),
    Column("answer", 1),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source_arguments(parser)
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=_since,
        default=0.0,
        help="only what is newer: 30m, 12h, 7d, or a date such as 2026-11-28 or 2026-11-28T12:00",
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON lines, on stdout")


def run(arguments: argparse.Namespace) -> int:
    configuration = usable_configuration(arguments)
    if configuration is None:
        return ExitCode.CONFIGURATION
    folder = configuration.settings.gateway.state_dir
    try:
        found = list(read(folder, arguments.since))
    except PermissionError:
        print_error(f"no permission to read {folder}; run this as the gateway's user, or with sudo")
        return ExitCode.PERMISSION
    except OSError as error:
        print_error(f"tidegate {arguments.verb}: {folder} cannot be read: {brief(error)}")
        return ExitCode.FAILURE
    entries = [each for each in found if each is not None]
    if len(entries) < len(found):
        print_error(f"{len(found) - len(entries)} lines are damaged and left out")
    if arguments.json:
        for each in entries:
            put(json.dumps(each) + "\n")
    elif not entries:
        print_line("nothing is recorded")
    else:
        for line in table(COLUMNS, [_row(each) for each in entries], terminal_columns()):
            put(f"{line}\n")
    return ExitCode.OK


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    when = datetime.fromisoformat(str(entry["time"])).astimezone()
    asked = entry.get("asked")
    of = asked if isinstance(asked, dict) else {}
    sign = "" if entry.get("done", True) else "refused: "
    return (
        when.strftime("%Y-%m-%d %H:%M:%S"),
        printable(_name(str(entry.get("who", "")))),
        printable(str(entry.get("from", ""))),
        printable(str(entry.get("via", ""))),
        printable(str(entry.get("what", ""))),
        printable(", ".join(f"{key} {value}" for key, value in of.items())),
        sign + printable(str(entry.get("answer", ""))),
    )


def _name(who: str) -> str:
    """Of a local user the name, where there is one."""
    if not who.startswith("uid:"):
        return who
    try:
        return pwd.getpwuid(int(who.removeprefix("uid:"))).pw_name
    except (KeyError, ValueError):
        return who


def _since(text: str) -> float:
    """Unix seconds."""
    ago_s = seconds_in(text)
    if ago_s is not None:
        return time.time() - ago_s
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        message = f"expected 30m, 12h, 7d or a date such as 2026-11-28, got {text[:30]!r}"
        raise argparse.ArgumentTypeError(message) from None
    return when.astimezone(UTC).timestamp()
