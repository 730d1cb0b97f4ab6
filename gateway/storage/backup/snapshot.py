"""A copy of the state folder as it was at one moment, while a gateway may be writing to it.

Nothing is locked and nothing of the gateway's is written. What is copied is what a power cut at
that moment would have left, and recovery is made for that.

The database: its file only ever gets pages that the write-ahead log has already, until the log
begins again, which changes the log's header first. So the file, and after it the log, are one
moment of the database if the log's header was the same before and after.

The journal: only its newest segment is written to, at its end. All older ones, and then that one,
are one moment of the journal. A segment that is freed meanwhile keeps its contents until it has
another name; so one that still has its name after it was read is what it was.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from gateway.storage.backup.archive import BackupError
from gateway.storage.backup.guarded import Folder
from gateway.storage.journal.options import FILE_BYTES_MAX
from gateway.storage.journal.segment import SEGMENT_NAME
from gateway.storage.state.store import DATABASE_FILE, DISTRUST_FILE

# Under load the log begins again some ten times a second; a copy takes milliseconds.
TRIES_MAX = 50
WAL_HEADER_BYTES = 32
LOG_FILE = f"{DATABASE_FILE}-wal"
PIECE_BYTES = 1 << 20


def copy_database(state_dir: Path, target: Path) -> bool:
    """To one file, checked. False if there is none yet. Raises BackupError, OSError."""
    source = state_dir / DATABASE_FILE
    with Folder.opened(state_dir) as folder:
        if folder.has(DISTRUST_FILE):
            raise _damaged(source)
        if not folder.has(DATABASE_FILE):
            return False
        for _ in range(TRIES_MAX):
            before = _head_of_log(folder)
            _copy(folder, DATABASE_FILE, target)
            _copy(folder, LOG_FILE, target.with_name(f"{target.name}-wal"))
            if _head_of_log(folder) == before:
                _make_one(source, target)
                return True
    raise BackupError(f"{source} changes too fast to be copied: try again in a quieter moment")


def _head_of_log(folder: Folder) -> bytes:
    try:
        with folder.reading(LOG_FILE) as file:
            return file.read(WAL_HEADER_BYTES)
    except FileNotFoundError:
        return b""


def _copy(folder: Folder, name: str, target: Path) -> None:
    """Of a file that grows meanwhile, what it was at the beginning at least."""
    target.unlink(missing_ok=True)
    try:
        with folder.reading(name) as file:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as copy:
                while content := file.read(PIECE_BYTES):
                    copy.write(content)
    except FileNotFoundError:
        if name == DATABASE_FILE:
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


def segments(journal_dir: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents, in the order of the journal. Raises BackupError, OSError."""
    with ExitStack() as stack:
        try:
            state = stack.enter_context(Folder.opened(journal_dir.parent))
            folder = stack.enter_context(state.child(journal_dir.name))
        except FileNotFoundError:
            return
        yield from _segments_in(folder)


def _segments_in(folder: Folder) -> Iterator[tuple[str, bytes]]:
    done: set[str] = set()
    for _ in range(TRIES_MAX):
        *older, newest = _names(folder) or [""]
        is_all_there = True
        for name in older:
            if name not in done:
                content = _read(folder, name)
                if content is None:
                    is_all_there = False
                else:
                    done.add(name)
                    yield name, content
        # One that was freed before it was read is finished by marks in a segment that may be newer
        # than all of these. The newest goes last, because what comes into it later does not count.
        content = _read(folder, newest) if newest and is_all_there else None
        if content is not None:
            yield newest, content
        if is_all_there and (content is not None or not newest):
            return
    raise BackupError(f"{folder.path} changes too fast to be copied: try again in a quieter moment")


def _names(folder: Folder) -> list[str]:
    """Oldest first: by the first reading, then by the serial number."""
    return sorted(name for name in folder.names() if SEGMENT_NAME.fullmatch(name))


def _read(folder: Folder, name: str) -> bytes | None:
    """None if it has lost its name before it was read."""
    try:
        with folder.reading(name) as file:
            content = file.read(FILE_BYTES_MAX)
            now = folder.status(name)
            is_it = now is not None and os.path.samestat(now, os.fstat(file.fileno()))
            return content if is_it else None
    except FileNotFoundError:
        return None
