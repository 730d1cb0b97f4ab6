"""A copy of the state folder as it was at one moment, while a gateway may be writing to it.

Nothing is locked and nothing of the gateway's is written. What is copied is what a power cut at
that moment would have left, and recovery is made for that.

The database: its file only ever gets pages that the write-ahead log has already, until the log
begins anew, which changes the log's header first. So the file, and after it the log, are one moment
of the database if the log's header was the same before and after.

The journal: only its newest segment is written to, at its end. All older ones, and then that one,
are one moment of the journal. A segment that is freed meanwhile keeps its contents until it has
another name; so one that still has its name after it was read is what it was.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from gateway.storage.backup.archive import BackupError
from gateway.storage.journal.options import FILE_BYTES_MAX
from gateway.storage.journal.segment import SEGMENT_NAME
from gateway.storage.state.store import DATABASE_FILE, DISTRUST_FILE

# Under load the log begins anew some ten times a second; a copy takes milliseconds.
TRIES_MAX = 50
WAL_HEADER_BYTES = 32
PIECE_BYTES = 1 << 20


def copy_database(state_dir: Path, target: Path) -> bool:
    """To one file, checked. False if there is none yet. Raises BackupError, OSError."""
    source, log = state_dir / DATABASE_FILE, state_dir / f"{DATABASE_FILE}-wal"
    if (state_dir / DISTRUST_FILE).exists():
        raise _damaged(source)
    if not source.exists():
        return False
    for _ in range(TRIES_MAX):
        before = _head_of(log)
        _copy(source, target)
        _copy(log, target.with_name(f"{target.name}-wal"))
        if _head_of(log) == before:
            _make_one(source, target)
            return True
    raise BackupError(f"{source} changes too fast to be copied: try again in a quieter moment")


def _head_of(log: Path) -> bytes:
    try:
        with log.open("rb") as file:
            return file.read(WAL_HEADER_BYTES)
    except FileNotFoundError:
        return b""


def _copy(source: Path, target: Path) -> None:
    """Of a file that grows meanwhile, what it was at the beginning at least."""
    target.unlink(missing_ok=True)
    try:
        with source.open("rb") as file:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as copy:
                while octets := file.read(PIECE_BYTES):
                    copy.write(octets)
    except FileNotFoundError:
        if source.name == DATABASE_FILE:
            raise


def _make_one(source: Path, target: Path) -> None:
    """The log goes into the file. What is damaged is no backup."""
    try:
        with closing(sqlite3.connect(target, isolation_level=None)) as connection:
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.Error:
        raise _damaged(source) from None
    if found != "ok" or mode != "delete":
        raise _damaged(source)


def _damaged(database: Path) -> BackupError:
    return BackupError(
        f"{database} is damaged: restart the gateway, which sets it aside and begins a new one; "
        "take the backup then"
    )


def segments(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents, in the order of the journal. Raises BackupError, OSError."""
    done: set[str] = set()
    for _ in range(TRIES_MAX):
        *older, newest = _names(folder) or [""]
        is_all_there = True
        for name in older:
            if name not in done:
                octets = _read(folder / name)
                if octets is None:
                    is_all_there = False
                else:
                    done.add(name)
                    yield name, octets
        # One that was freed before it was read is finished by marks in a segment that may be newer
        # than all of these. The newest goes last, because what comes into it later does not count.
        octets = _read(folder / newest) if newest and is_all_there else None
        if octets is not None:
            yield newest, octets
        if is_all_there and (octets is not None or not newest):
            return
    raise BackupError(f"{folder} changes too fast to be copied: try again in a quieter moment")


def _names(folder: Path) -> list[str]:
    """Oldest first: by the first reading, then by the serial number."""
    try:
        found = [path.name for path in folder.iterdir() if path.is_file()]
    except FileNotFoundError:
        return []
    return sorted(name for name in found if SEGMENT_NAME.fullmatch(name))


def _read(path: Path) -> bytes | None:
    """None if it has lost its name before it was read."""
    try:
        with path.open("rb") as file:
            octets = file.read(FILE_BYTES_MAX)
            return octets if path.stat().st_ino == os.fstat(file.fileno()).st_ino else None
    except FileNotFoundError:
        return None
