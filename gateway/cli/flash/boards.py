"""Which board is meant, and what it is: by --board, by its drive, by asking it."""

import argparse
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.flashing.console import Console, Identity, who
from gateway.flashing.drives import (
    Drive,
    drive_at,
    drives,
    is_second_micro_bit,
    unmounted,
)
from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.esptool import Esptool
from gateway.flashing.finding import FoundPort, found_ports, kinds_of_drive, the_port
from gateway.flashing.kinds import Kind, kind_named, read_kinds
from gateway.flashing.report import Report
from gateway.flashing.sources import firmware_folder

QUICK_S = 3.0  # for a board that may have no MicroPython


@dataclass(frozen=True, slots=True)
class Target:
    """`identity`: of the MicroPython on it. A board without a port is a drive and nothing else."""

    kind: Kind
    port: FoundPort | None = None
    drive: Drive | None = None
    identity: Identity | None = None


def kinds_of(arguments: argparse.Namespace) -> Mapping[str, Kind]:
    return read_kinds(arguments.boards or firmware_folder() / "boards")


def kind_given(arguments: argparse.Namespace, kinds: Mapping[str, Kind]) -> Kind | None:
    return None if arguments.board is None else kind_named(kinds, arguments.board)


def target_of(arguments: argparse.Namespace, report: Report, *, by_port: bool = False) -> Target:
    """The board to work on; `by_port`: what it runs counts, and not that it is a drive as well.
    Raises FlashError.
    """
    kinds = kinds_of(arguments)
    given = kind_given(arguments, kinds)
    if by_port:
        return ask_port(_port_of(arguments, kinds, given), kinds, given, report)
    drive = _drive_of(arguments, kinds, given)
    if drive is not None and (arguments.drive is not None or arguments.port is None):
        kind = given or _kind_of_drive(drive, kinds)
        return Target(kind, _port_beside(arguments, kind, kinds), drive)
    port = _port_of(arguments, kinds, given)
    return ask_port(port, kinds, given, report)


def _drive_of(
    arguments: argparse.Namespace, kinds: Mapping[str, Kind], given: Kind | None
) -> Drive | None:
    if arguments.drive is not None:
        drive = drive_at(arguments.drive)
        if drive is None:
            text = f"{arguments.drive} is no board's drive: it has no INFO_UF2.TXT or DETAILS.TXT"
            raise FlashError(Failure.ABSENT, text)
        return drive
    found = [each for each in drives() if kinds_of_drive(each, kinds)]
    if given is not None:
        found = [each for each in found if each.name == given.install.drive]
    if len(found) > 1:
        named = ", ".join(str(each.folder) for each in found)
        text = f"{len(found)} boards' drives are mounted: {named}; say which with --drive"
        raise FlashError(Failure.AMBIGUOUS, text)
    return found[0] if found else None


def _kind_of_drive(drive: Drive, kinds: Mapping[str, Kind]) -> Kind:
    names = kinds_of_drive(drive, kinds)
    if is_second_micro_bit(drive):
        text = f"{drive.folder} is a micro:bit of the second edition, which is not among the boards"
        raise FlashError(Failure.WRONG, text)
    if len(names) == 1:
        return kinds[names[0]]
    if not names:
        raise FlashError(Failure.WRONG, f"{drive.folder} is {drive.name!r}, which nobody knows")
    text = f"{drive.folder} may be {' or '.join(names)}: say which with --board"
    raise FlashError(Failure.AMBIGUOUS, text)


def _port_beside(
    arguments: argparse.Namespace, kind: Kind, kinds: Mapping[str, Kind]
) -> FoundPort | None:
    """A micro:bit is a drive and a port at once."""
    if arguments.port is not None:
        return the_port(found_ports(kinds), arguments.port)
    found = [port for port in found_ports(kinds) if kind.name in port.kinds]
    return found[0] if kind.install.method == "hex" and len(found) == 1 else None


def _port_of(
    arguments: argparse.Namespace, kinds: Mapping[str, Kind], given: Kind | None
) -> FoundPort:
    try:
        return the_port(found_ports(kinds), arguments.port, given)
    except FlashError as error:
        devices = unmounted()
        if error.failure is not Failure.ABSENT or not devices:
            raise
        text = (
            f"{devices[0].name} is plugged in, and nobody has mounted its drive:  "
            f"{_mount_command(devices[0])}"
        )
        raise FlashError(Failure.ABSENT, text) from None


def _mount_command(device: Path) -> str:
    if shutil.which("udisksctl") is not None:
        return f"udisksctl mount -b {device}"
    return f"sudo mount --mkdir -o uid={os.getuid()} {device} /mnt/{device.name}"


def ask_port(
    port: FoundPort, kinds: Mapping[str, Kind], given: Kind | None, report: Report
) -> Target:
    """What it says of itself: its MicroPython, or its loader. Raises FlashError."""
    identity = identity_at(port.device, QUICK_S)
    if identity is not None:
        with started_again(port):
            kind = given or _kind_of(identity, kinds)
            if not kind.machine.search(identity.machine):
                text = f"{port.name} is {identity.machine!r}, and --board says {kind.name}"
                raise FlashError(Failure.WRONG, text)
        return Target(kind, port, identity=identity)
    if given is not None:
        return Target(given, port)
    candidates = [kinds[name] for name in port.kinds]
    if len(candidates) == 1:
        return Target(candidates[0], port)
    if candidates and any(kind.install.method != "esptool" for kind in candidates):
        names = " or ".join(kind.name for kind in candidates)
        raise FlashError(Failure.AMBIGUOUS, f"{port.name} may be {names}: say which with --board")
    report.print_line(f"{port.name} says nothing; asking its loader")
    chip, mac = Esptool(port.device).chip()
    fitting = [kind for kind in kinds.values() if kind.chip == chip]
    if not fitting:
        raise FlashError(
            Failure.WRONG, f"{port.name} is an {chip} ({mac}), which nobody knows here"
        )
    return Target(fitting[0], port)


def _kind_of(identity: Identity, kinds: Mapping[str, Kind]) -> Kind:
    fitting = [kind for kind in kinds.values() if kind.machine.search(identity.machine)]
    if not fitting:
        text = f"the board says {identity.machine!r}, which is none of ours: say which with --board"
        raise FlashError(Failure.WRONG, text)
    return fitting[0]


@contextmanager
def started_again(port: FoundPort | None, *, always: bool = False) -> Iterator[None]:
    """A board that was stopped to be asked must not stay so when nothing comes of it."""
    is_left = always
    try:
        yield
    except BaseException:
        is_left = True
        raise
    finally:
        if is_left and port is not None:
            with suppress(FlashError), Console(port.device) as console:
                console.leave()


def identity_at(port: str, patience_s: float) -> Identity | None:
    """None when nothing answers. It is left at its raw REPL."""
    with Console(port) as console:
        try:
            console.stop(patience_s)
        except FlashError as error:
            if error.failure is Failure.ABSENT:
                return None
            raise
        return who(console)


def _require_kind(kind: Kind, identity: Identity) -> None:
    if not kind.machine.search(identity.machine):
        text = f"what was installed is for {identity.machine!r}, and the board is a {kind.title}"
        raise FlashError(Failure.WRONG, text)


def wait_for_micropython(target: Target, kinds: Mapping[str, Kind], patience_s: float) -> Target:
    """After an installation, when the port may come again, or under another name."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            port = target.port or the_port(found_ports(kinds), None, target.kind)
            identity = identity_at(port.device, QUICK_S)
            if identity is not None:
                _require_kind(target.kind, identity)
                return Target(kind=target.kind, port=port, drive=target.drive, identity=identity)
        except FlashError as error:
            if error.failure not in (Failure.ABSENT, Failure.CUT) or time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            text = f"MicroPython does not answer within {patience_s:.0f} s: press RESET, then again"
            raise FlashError(Failure.ABSENT, text)
        time.sleep(0.2)
