"""MicroPython onto a board: by its loader, or by a file onto its drive."""

import argparse
import os
import time

from gateway.cli.flash.boards import Target, kinds_of
from gateway.flashing.console import Console
from gateway.flashing.drives import Drive, copy_to, drives, is_second_micro_bit
from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.esptool import Esptool
from gateway.flashing.finding import kinds_of_drive
from gateway.flashing.images import cache_folder, image_path, read_image
from gateway.flashing.intel_hex import with_script
from gateway.flashing.kinds import Kind
from gateway.flashing.program import Program
from gateway.flashing.report import Report

DRIVE_S_MAX = 20.0


def install(
    arguments: argparse.Namespace, target: Target, program: Program | None, report: Report
) -> None:
    """Raises FlashError before anything is touched, if the file does not fit."""
    kind = target.kind
    cache = arguments.cache or cache_folder(os.environ)
    path = image_path(kind, arguments.firmware, cache)
    image = read_image(kind, path)
    if kind.install.method == "hex" and program is not None and program.script is not None:
        image = with_script(image.decode("ascii"), program.script, path.name).encode("ascii")
    where = target.drive.folder if target.drive else target.port.name if target.port else ""
    report.print_line(f"{'would write' if arguments.dry_run else 'writing'} {path} to {where}")
    if arguments.dry_run:
        return
    match kind.install.method:
        case "esptool":
            assert target.port is not None
            Esptool(target.port.device).write(kind, image, report)
        case "uf2":
            drive = target.drive or _as_drive(arguments, target, report)
            copy_to(drive, "micropython.uf2", image, report)
        case _:
            if target.drive is None:
                raise FlashError(Failure.ABSENT, _no_drive(kind))
            if is_second_micro_bit(target.drive):
                text = f"{target.drive.folder} is a micro:bit of the second edition"
                raise FlashError(Failure.WRONG, text)
            copy_to(target.drive, "micropython.hex", image, report)
    report.print_line(f"{path.name} is on the board")


def _as_drive(arguments: argparse.Namespace, target: Target, report: Report) -> Drive:
    """A board that runs MicroPython becomes a drive when it is asked to."""
    kind = target.kind
    if target.port is None or target.identity is None:
        raise FlashError(Failure.ABSENT, _no_drive(kind))
    report.print_line(f"{target.port.name} becomes a drive")
    with Console(target.port.device) as console:
        console.stop()
        console.write(b"import machine\nmachine.bootloader()\x04")
    deadline = time.monotonic() + DRIVE_S_MAX
    while time.monotonic() < deadline:
        for drive in drives():
            if kind.name in kinds_of_drive(drive, kinds_of(arguments)):
                return drive
        time.sleep(0.1)
    raise FlashError(Failure.ABSENT, _no_drive(kind))


def _no_drive(kind: Kind) -> str:
    hint = kind.install.hint or "plug it in"
    return f"the drive of the {kind.title} is not mounted ({hint}); say where it is with --drive"
