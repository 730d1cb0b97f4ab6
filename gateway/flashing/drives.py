"""Boards that are a drive: a file copied onto it is what they become.

RP2040 and RP2350 are one while BOOTSEL is held, with INFO_UF2.TXT in it; a micro:bit always is,
with DETAILS.TXT. A board that took a file makes it vanish, mostly with the drive.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.report import Report

MOUNTS = Path("/proc/self/mounts")
LABELS = Path("/dev/disk/by-label")
LABELS_KNOWN = ("RPI-RP2", "RP2350", "MICROBIT")
TAKEN_S_MAX = 30.0  # a micro:bit programs itself after the copy
LOOK_S = 0.05
CHUNK_OCTETS = 16 * 1024
ABOUT_OCTETS_MAX = 8192

_UF2, _DAPLINK = "INFO_UF2.TXT", "DETAILS.TXT"
# What a copy ends with if the drive goes away under it.
_GONE = frozenset({errno.EIO, errno.ENODEV, errno.ENXIO, errno.ENOENT, errno.EROFS, errno.ESTALE})


@dataclass(frozen=True, slots=True)
class Drive:
    """`name` is what `install.drive` of a board's description is compared with."""

    folder: Path
    name: str
    about: str


def drives(mounts: Path = MOUNTS) -> list[Drive]:
    """Those that are mounted."""
    found = (drive_at(folder) for folder in _mounted(mounts))
    return [drive for drive in found if drive is not None]


def unmounted(labels: Path = LABELS, mounts: Path = MOUNTS) -> list[Path]:
    """Devices of boards whose drive nobody has mounted, as on a system without a desktop."""
    try:
        in_use = {line.split()[0] for line in mounts.read_text().splitlines()}
        links = [labels / label for label in LABELS_KNOWN]
    except OSError:
        return []
    return [link for link in links if link.exists() and os.path.realpath(link) not in in_use]


def drive_at(folder: Path) -> Drive | None:
    """What is there, if it is a board's drive."""
    if about := _read(folder / _UF2):
        found = re.search(r"^Board-ID:\s*(\S+)", about, re.MULTILINE)
        return Drive(folder, found.group(1) if found else "", about)
    if about := _read(folder / _DAPLINK):
        return Drive(folder, "MICROBIT", about)
    return None


def is_second_micro_bit(drive: Drive) -> bool:
    """By the first digits of its unique id: 9900 and 9901 are the first edition."""
    found = re.search(r"^Unique ID:\s*(\d{4})", drive.about, re.MULTILINE)
    return found is not None and int(found.group(1)) >= 9903


def copy_to(drive: Drive, name: str, octets: bytes, report: Report) -> None:
    """Returns when the board has taken it. Raises FlashError."""
    path = drive.folder / name
    try:
        _write(path, octets, report)
    except OSError as error:
        raise _why(drive, error) from None
    deadline = time.monotonic() + TAKEN_S_MAX
    while _is_there(path):
        if time.monotonic() > deadline:
            text = (
                f"{drive.folder} has {name}, but the board did not take it: unplug it, then again"
            )
            raise FlashError(Failure.CUT, text)
        time.sleep(LOOK_S)
    failed = _read(drive.folder / "FAIL.TXT")
    if failed:
        raise FlashError(Failure.WRONG, f"the board refused {name}: {' '.join(failed.split())}")


def _is_there(path: Path) -> bool:
    """A drive that has gone may fail otherwise than by not having it."""
    try:
        return path.exists()
    except OSError:
        return False


def _write(path: Path, octets: bytes, report: Report) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    is_whole = False
    try:
        for at in range(0, len(octets), CHUNK_OCTETS):
            _write_all(descriptor, octets[at : at + CHUNK_OCTETS])
            report.at("copying", min(at + CHUNK_OCTETS, len(octets)), len(octets))
        is_whole = True
        os.fsync(descriptor)
    except OSError as error:
        if not is_whole or error.errno not in _GONE:
            raise  # else the board had all of it, and has started already
    finally:
        with suppress(OSError):
            os.close(descriptor)


def _write_all(descriptor: int, octets: bytes) -> None:
    while octets:
        octets = octets[os.write(descriptor, octets) :]


def _why(drive: Drive, error: OSError) -> FlashError:
    if error.errno in (errno.EACCES, errno.EPERM):
        text = f"this user may not write to {drive.folder}: mount it as this user, or use sudo"
        return FlashError(Failure.PERMISSION, text)
    if error.errno == errno.ENOSPC:
        return FlashError(Failure.WRONG, f"{drive.folder} has no room: is it a board's drive?")
    text = f"{drive.folder} went away while it was written to ({error.strerror}): plug in again"
    return FlashError(Failure.CUT, text)


def _mounted(mounts: Path) -> Iterator[Path]:
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        device, folder, kind = (*line.split(), "", "", "")[:3]
        if kind in ("vfat", "msdos") and device:
            yield Path(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), folder))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(ABOUT_OCTETS_MAX).decode(errors="replace")
    except OSError:
        return ""
