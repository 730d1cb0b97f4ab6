"""What each action does, and in which order."""

import argparse
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager

from gateway.app.exit_codes import ExitCode
from gateway.cli.flash.boards import (
    Target,
    identity_at,
    kinds_of,
    started_again,
    target_of,
    wait_for_micropython,
)
from gateway.cli.flash.hearing import asker
from gateway.cli.flash.installing import install
from gateway.cli.flash.monitoring import monitor
from gateway.cli.flash.provisioning import (
    Node,
    kind_for_folder,
    node_of,
    program_for,
    provision,
)
from gateway.cli.flash.reporting import TerminalReport
from gateway.cli.flash.testing import test
from gateway.cli.output import say
from gateway.cli.tables import Column, table, terminal_columns
from gateway.flashing.drives import drives, unmounted
from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.finding import FoundPort, found_ports, kinds_of_drive
from gateway.flashing.kinds import Kind
from gateway.flashing.program import Program
from gateway.flashing.programs import needed_program
from gateway.flashing.report import Report

SCHEMA = "tidegate.flash/1"
START_S_MAX = 30.0
QUICK_S = 2.0

COLUMNS = (
    Column("port or drive", is_name=True),
    Column("may be", is_name=True),
    Column("USB", 2),
    Column("what it says", 1, is_name=True),
)


def run(arguments: argparse.Namespace) -> int:
    """Raises FlashError."""
    report = TerminalReport()
    match arguments.action:
        case "list":
            return list_boards(arguments)
        case "install":
            target = target_of(arguments, report)
            with _left_running(arguments, target):
                installed(arguments, target, None, report)
        case "provision":
            provision_one(arguments, report)
        case "monitor":
            return monitor(arguments)
        case "test":
            return test(arguments, report)
        case _ if arguments.batch:
            from gateway.cli.flash.batch import batch

            return batch(arguments, report)
        case _:
            whole_way(arguments, node_of(arguments), report)
    return ExitCode.OK


def whole_way(arguments: argparse.Namespace, node: Node, report: Report) -> None:
    """MicroPython if it has none, then the rest. Raises FlashError."""
    asker(arguments)  # what is wrong with its configuration is said before a board is touched
    if arguments.into is not None:
        provision(arguments, node, program_for(node, kind_for_folder(arguments)), None, report)
        return
    target = target_of(arguments, report)
    report.say(described(target))
    is_whole = target.drive is not None and target.kind.install.method == "hex"
    with _left_running(arguments, target):
        program = _program(node, target.kind)
        if target.identity is None or arguments.reinstall or is_whole:
            target = installed(arguments, target, program, report)
        provision(arguments, node, program, target, report)


def installed(
    arguments: argparse.Namespace, target: Target, program: Program | None, report: Report
) -> Target:
    """With MicroPython on it; a micro:bit with its program as well, if there is one."""
    install(arguments, target, program, report)
    if arguments.dry_run:
        return target
    if target.port is None and target.kind.install.method == "hex":
        return target
    target = wait_for_micropython(target, kinds_of(arguments), START_S_MAX)
    report.say(f"{target.kind.title} has {target.identity}")
    return target


def provision_one(arguments: argparse.Namespace, report: Report) -> None:
    node = node_of(arguments)
    asker(arguments)
    if arguments.into is not None:
        provision(arguments, node, program_for(node, kind_for_folder(arguments)), None, report)
        return
    target = target_of(arguments, report, by_port=True)
    if target.identity is None:
        assert target.port is not None
        text = f"{target.port.name} has no MicroPython that answers:  tidegate flash install"
        raise FlashError(Failure.ABSENT, f"{text}  puts it there")
    report.say(described(target))
    with _left_running(arguments, target):
        provision(arguments, node, _program(node, target.kind), target, report)


def _program(node: Node, kind: Kind) -> Program:
    """And the tools that will place it are there. Raises FlashError."""
    if kind.program != "tiny":
        needed_program("mpremote")
    return program_for(node, kind)


def _left_running(
    arguments: argparse.Namespace, target: Target | None
) -> AbstractContextManager[None]:
    """What was stopped goes on, if nothing comes of it."""
    port = None if target is None or target.identity is None else target.port
    return started_again(port, always=arguments.dry_run)


def described(target: Target) -> str:
    where = target.port.name if target.port else target.drive.folder if target.drive else ""
    has = f"with {target.identity}" if target.identity else "without MicroPython that answers"
    if target.drive is not None and target.identity is None:
        has = "as a drive"
    return f"{where}: {target.kind.title}, {has}"


def list_boards(arguments: argparse.Namespace) -> int:
    kinds = kinds_of(arguments)
    rows: list[dict[str, object]] = []
    for port in found_ports(kinds):
        says = _answer_of(port) if arguments.ask else port.description
        rows.append(
            {
                "place": port.name,
                "device": port.device,
                "usb": port.usb,
                "serial_number": port.serial_number,
                "boards": list(port.kinds),
                "says": says,
            }
        )
    rows += [
        {"place": str(drive.folder), "boards": list(names), "says": drive.name}
        for drive in drives()
        if (names := kinds_of_drive(drive, kinds))
    ]
    unseen = "a drive that is not mounted"
    rows += [{"place": str(device), "boards": [], "says": unseen} for device in unmounted()]
    if arguments.json:
        say(json.dumps({"schema": SCHEMA, "found": rows}, indent=2))
    elif rows:
        lines = table(COLUMNS, [_row(row) for row in rows], terminal_columns())
        say("\n".join(lines))
    else:
        say("no boards; some cables only charge: try another one")
    return ExitCode.OK


def _row(row: Mapping[str, object]) -> tuple[str, ...]:
    boards = row["boards"]
    assert isinstance(boards, list)
    return (
        str(row["place"]),
        ", ".join(boards) or "-",
        str(row.get("usb") or "-"),
        str(row["says"] or "-"),
    )


def _answer_of(port: FoundPort) -> str:
    try:
        with started_again(port, always=True):
            identity = identity_at(port.device, QUICK_S)
    except FlashError as error:
        return str(error)
    return "no MicroPython answers" if identity is None else str(identity)
