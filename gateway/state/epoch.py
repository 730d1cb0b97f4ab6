"""The gateway's epoch: a counter raised durably at every start, in a folder of its own.

With the gateway's name and a reading's sequence it names the reading for ever, so a number must
never be used twice. A folder without a counter begins at the seconds since 1970: a gateway whose
card was replaced must not begin again where the one before began, nor one whose counter is
damaged. The file is replaced whole (written beside it, synced, renamed, folder synced).
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger("tidegate.state")

EPOCH_FILE = "epoch"
LOCK_FILE = "lock"


class StateError(OSError):
    """The state folder cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The folder, locked for this process until `release`."""

    path: Path
    epoch: int
    lock: int

    def release(self) -> None:
        os.close(self.lock)


def open_state(path: Path) -> StateFolder:
    """Make the folder if need be, lock it and start a new epoch. Raises StateError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = _lock(path / LOCK_FILE)
        try:
            epoch = _read(path / EPOCH_FILE) + 1
            _replace(path, str(epoch))
        except OSError:
            os.close(lock)
            raise
    except StateError:
        raise
    except OSError as error:
        raise StateError(error.errno, _advice(path, error)) from error
    return StateFolder(path, epoch, lock)


def _lock(path: Path) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 20).decode(errors="replace").strip()
        os.close(lock)
        raise StateError(
            error.errno,
            f"gateway.state_dir {path.parent} is in use by another tidegate (process {holder}): "
            "stop it, or give this one a state_dir of its own",
        ) from error
    os.ftruncate(lock, 0)
    os.write(lock, b"%d\n" % os.getpid())
    return lock


def _read(path: Path) -> int:
    try:
        found = path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return int(time.time())
    if found.isdigit():
        return int(found)
    seconds = int(time.time())
    log.warning("%s is damaged (%.20r), going on with epoch %d", path, found, seconds + 1)
    return seconds


def _replace(folder: Path, content: str) -> None:
    beside = folder / f"{EPOCH_FILE}.new"
    with beside.open("w", encoding="ascii") as file:
        file.write(content + "\n")
        file.flush()
        os.fsync(file.fileno())
    beside.rename(folder / EPOCH_FILE)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _advice(path: Path, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return (
            f"gateway.state_dir {path} may not be written by this user: "
            f"`sudo install -d -o $USER {path}`, or set another gateway.state_dir"
        )
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"gateway.state_dir {path} is not a folder: remove the file or set another path"
    return f"gateway.state_dir {path} cannot be used: {error.strerror}"
