"""`tidegate buffer aside`: readings that the broker does not take; listed, sent again, deleted."""

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gateway.admin.aside import ASIDE_SCHEMA, listed
from gateway.app.exit_codes import ExitCode
from gateway.cli.arguments import Actions, add_action, add_password_file
from gateway.cli.buffer.export import STDOUT, to_file
from gateway.cli.buffer.on_disk import BufferError
from gateway.cli.live import HINT, clock, printable
from gateway.cli.output import print_error, print_line, put
from gateway.cli.sources import add_source_arguments
from gateway.cli.tables import Column, table, terminal_columns
from gateway.config import Configuration
from gateway.core.state_records import AsideRecord
from gateway.host.causes import brief
from gateway.storage.state.errors import StateError
from gateway.storage.state.store import DATABASE_FILE, StateStore
from gateway.transports.clock import now, unix_ms_at_zero

COLUMNS = (
    Column("number", right=True),
    Column("client", is_name=True),
    Column("topic", is_name=True),
    Column("QoS", 3),
    Column("set aside", 2),
    Column("bytes", 4, right=True),
    Column("why", 1),
)
ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS,
        help="answer in JSON, on stdout, with all of each payload",
    )
    actions = parser.add_subparsers(
        dest="aside_action",
        metavar="ACTION",
        title="actions",
        description="Without one: which, and why. `send` and `delete` need a gateway that runs,\n"
        "and the password of its status page.",
    )
    export = _add_action(actions, "export", "write all of them as JSON lines, and take none away")
    export.add_argument(
        "--output", metavar="FILE", default=STDOUT, help="where to; stdout without it"
    )
    export.add_argument("--force", action="store_true", help="replace FILE if it is there")
    for name, help_ in (
        ("send", "send them to the broker once more, by way of the buffer and not retained"),
        ("delete", "throw them away"),
    ):
        action = _add_action(actions, name, help_)
        action.add_argument(
            "numbers",
            metavar="NUMBER",
            nargs="+",
            type=_number,
            help="of the list, as many as you like, or all",
        )
        add_password_file(action)


def _add_action(actions: Actions, name: str, help_: str) -> argparse.ArgumentParser:
    action = add_action(actions, name, help_)
    add_source_arguments(action, is_repeated=True)
    return action


def _number(text: str) -> int | str:
    if text == ALL:
        return ALL
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:18]) == int(text):
        raise argparse.ArgumentTypeError(f"expected a number of the list or all, got {text[:20]!r}")
    return int(text)


def run(arguments: argparse.Namespace, configuration: Configuration) -> int:
    if arguments.aside_action in ("send", "delete"):
        return _act(arguments, configuration)
    answer, where = _answer(configuration)
    readings = answer["readings"]
    if arguments.aside_action == "export":
        return _export(arguments, readings)
    if arguments.json:
        print_line(json.dumps(answer, indent=2))
    elif not readings:
        print_line(f"nothing is set aside ({where})")
    else:
        unix_s = now() + unix_ms_at_zero() / 1000
        for line in table(COLUMNS, [_row(one, unix_s) for one in readings], terminal_columns()):
            put(f"{line}\n")
    return ExitCode.OK


def _row(one: Mapping[str, Any], unix_s: float) -> tuple[str, ...]:
    return (
        str(one["number"]),
        printable(one["client"]),
        printable(one["topic"]),
        f"{one['qos']}{' retain' if one['retain'] else ''}",
        clock(one["set_aside_ms"] / 1000, unix_s),
        str(len(one["payload"]) * 3 // 4 - one["payload"].count("=")),
        printable(one["reason"]),
    )


def _answer(configuration: Configuration) -> tuple[dict[str, Any], str]:
    from gateway.cli import asking  # brings http.client with it

    settings = configuration.settings
    name = settings.gateway.name
    try:
        found = asking.ask_this(configuration, "/api/buffer/aside", ASIDE_SCHEMA)
        return found, f"running, {asking.place_of(configuration).url}"
    except asking.NoAnswerError as reason:
        print_error(f"{reason}; read from files")
    folder = settings.gateway.state_dir
    return listed(name, _records(folder)), f"files in {folder}"


def _records(folder: Path) -> list[AsideRecord]:
    """From a copy of the database, which a gateway that runs has for itself."""
    if not (folder / DATABASE_FILE).exists():
        return []
    try:
        with tempfile.TemporaryDirectory(prefix="tidegate-") as copy:
            for path in folder.glob(f"{DATABASE_FILE}*"):
                shutil.copyfile(path, Path(copy) / path.name)
            store = StateStore.open(Path(copy))
            try:
                return store.load().aside
            finally:
                store.close()
    except PermissionError:
        message = f"no permission to read {folder}; run this as the gateway's user, or with sudo"
        raise BufferError(message, ExitCode.PERMISSION) from None
    except (StateError, OSError) as error:
        raise BufferError(f"{folder} cannot be read: {brief(error)}", ExitCode.FAILURE) from None


def _export(arguments: argparse.Namespace, readings: list[dict[str, Any]]) -> int:
    def write_all(write: Callable[[str], object]) -> int:
        for one in readings:
            write(json.dumps(one, ensure_ascii=False) + "\n")
        return len(readings)

    if arguments.output == STDOUT:
        count = write_all(put)
    else:
        count = to_file(Path(arguments.output), write_all, is_forced=arguments.force)
    print_error(f"{count} readings exported; all of them are still set aside")
    return ExitCode.OK


def _act(arguments: argparse.Namespace, configuration: Configuration) -> int:
    from gateway.cli import acting, asking  # bring http.client with them

    numbers = ALL if ALL in arguments.numbers else arguments.numbers
    action = f"aside_{arguments.aside_action}"
    try:
        asked = {"numbers": numbers}
        done = acting.act_as(configuration, arguments.password_file, action, asked)
    except asking.NoAnswerError as reason:
        raise BufferError(f"{reason}; {HINT}", ExitCode.UNAVAILABLE) from None
    except acting.NotDoneError as error:
        raise BufferError(str(error), error.code) from None
    print_line(json.dumps({"done": done}) if arguments.json else done)
    return ExitCode.OK
