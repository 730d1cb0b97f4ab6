"""`tidegate flash --batch`: one board after the other, as they are plugged in.

A board counts as new when its port or drive was not there a moment before, so the same adapter may
be used again, and one that failed is tried again when it is plugged in again.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from gateway.app.exit_codes import ExitCode
from gateway.cli.flash.boards import kinds_of
from gateway.cli.flash.one_board import flash_board
from gateway.cli.flash.provisioning import node_of
from gateway.cli.output import print_error, print_line
from gateway.flashing.drives import drives
from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.finding import found_ports, kinds_of_drive
from gateway.flashing.report import Report

POLL_S = 0.3
Place = tuple[str, str]  # `port` or `drive`, and where it is
PORT_READY_S = 0.5  # a port is there before its rights are


def batch(arguments: argparse.Namespace, report: Report) -> int:
    """1 if one of them failed. Raises FlashError if none could succeed."""
    _check(arguments)
    node_of(arguments, _name(arguments, arguments.first))  # so that mistakes are told at once
    kinds_of(arguments)
    number, done, failed = arguments.first, 0, 0
    print_line("plug in the first board; Ctrl-C ends")
    try:
        for place in _places(arguments):
            name = _name(arguments, number)
            if _one(arguments, place, name, report):
                number += 1
                done += 1
            else:
                failed += 1
            if arguments.count is not None and done + failed >= arguments.count:
                break
            print_line(f"unplug it, and plug in the next, which is {_name(arguments, number)}")
    except KeyboardInterrupt:
        print_error("")
    print_line(f"{done} done, {failed} failed")
    return ExitCode.FAILURE if failed else ExitCode.OK


def _check(arguments: argparse.Namespace) -> None:
    if arguments.into is not None:
        raise FlashError(Failure.WRONG, "--batch and --into: a folder is one board")
    if arguments.name is None or "{}" not in arguments.name:
        raise FlashError(Failure.WRONG, "--batch: --name needs {} for the number: 'shed-{}'")


def _name(arguments: argparse.Namespace, number: int) -> str:
    return str(arguments.name).replace("{}", str(number))


def _one(arguments: argparse.Namespace, place: Place, name: str, report: Report) -> bool:
    what, where = place
    chosen = argparse.Namespace(**{**vars(arguments), what: where})
    if what == "drive":
        chosen.drive = Path(where)
    print_line(f"{where}: becomes {name}")
    try:
        flash_board(chosen, node_of(chosen, name), report)
    except FlashError as error:
        print_error(f"tidegate flash: {name}: {error}")
        return False
    return True


def _places(arguments: argparse.Namespace) -> Iterator[Place]:
    """Each time that one appears."""
    before: set[Place] = set()
    while True:
        there = set(_there(arguments))
        for what, where in sorted(before - there):
            if what == "port":  # drives go by themselves
                print_line(f"{where} is unplugged")
        for place in sorted(there - before):
            time.sleep(PORT_READY_S)
            yield place
            if place[0] == "drive":
                there |= _port_of_it(set(_there(arguments)) - there)
        before = there
        time.sleep(POLL_S)


def _port_of_it(fresh: set[Place]) -> set[Place]:
    """A board that was a drive is a port afterwards, and not another board."""
    return set(sorted(place for place in fresh if place[0] == "port")[:1])


def _there(arguments: argparse.Namespace) -> Iterator[Place]:
    if arguments.port is not None:
        if Path(arguments.port).exists():
            yield "port", arguments.port
        return
    kinds = kinds_of(arguments)
    known = arguments.board
    drives_too: set[str] = set()  # kinds that are a port at the same time
    for drive in drives():
        names = kinds_of_drive(drive, kinds)
        if names and known in (None, *names):
            drives_too |= {name for name in names if kinds[name].install.method == "hex"}
            yield "drive", str(drive.folder)
    for port in found_ports(kinds):
        if set(port.kinds) - drives_too and known in (None, *port.kinds):
            yield "port", port.name
