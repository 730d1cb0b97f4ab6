"""`tidegate flash list`: which boards are plugged in, and what they are."""

import argparse
import json
from collections.abc import Mapping

from gateway.app.exit_codes import ExitCode
from gateway.cli.flash.boards import identity_at, kinds_of, started_again
from gateway.cli.output import print_line
from gateway.cli.tables import Column, table, terminal_columns
from gateway.flashing.drives import drives, unmounted
from gateway.flashing.errors import FlashError
from gateway.flashing.finding import FoundPort, found_ports, kinds_of_drive

SCHEMA = "tidegate.flash/1"
QUICK_S = 2.0

COLUMNS = (
    Column("port or drive", is_name=True),
    Column("may be", is_name=True),
    Column("USB", 2),
    Column("what it says", 1, is_name=True),
)


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
        print_line(json.dumps({"schema": SCHEMA, "found": rows}, indent=2))
    elif rows:
        lines = table(COLUMNS, [_row(row) for row in rows], terminal_columns())
        print_line("\n".join(lines))
    else:
        print_line("no boards; some cables only charge: try another one")
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
