"""The state folder: locked for one process, with the database in it.

With the gateway's name and a reading's sequence the epoch names the reading for ever, so a number
must never be used twice. It is in the database; an `epoch` file is what releases without one left.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.state.errors import StateError, advice
from gateway.state.store import StateStore

EPOCH_FILE = "epoch"
LOCK_FILE = "lock"


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The folder, locked for this process until `release`."""

    path: Path
    store: StateStore
    lock: int

    @property
    def epoch(self) -> int:
        return self.store.epoch

    def release(self) -> None:
        os.close(self.lock)


def open_state(path: Path, link_names: Sequence[str]) -> StateFolder:
    """Make the folder if need be, lock it, open the database and start a new epoch.

    Raises StateError.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = _lock(path / LOCK_FILE)
        try:
            store = StateStore.open(path, link_names)
            _begin_life(path, store)
            _sync(path)
        except (OSError, sqlite3.Error):
            os.close(lock)
            raise
    except StateError:
        raise
    except (OSError, sqlite3.Error) as error:
        raise StateError(getattr(error, "errno", 0), advice(path, error)) from error
    return StateFolder(path, store, lock)


def _begin_life(path: Path, store: StateStore) -> None:
    file = path / EPOCH_FILE
    if not file.exists():
        store.begin_life()
        return
    found = file.read_text(encoding="ascii", errors="replace").strip()
    store.begin_life(int(found) if found.isdigit() else None)
    file.unlink()


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


def _sync(folder: Path) -> None:
    """The names of the database's files must survive too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
