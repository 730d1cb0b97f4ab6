"""What `state/` raises when the operator has to do something, and the sentences for it."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from gateway.host.causes import cause, not_allowed, refusal

# By the low byte of SQLite's error code.
_MEANING = {
    sqlite3.SQLITE_FULL: (errno.ENOSPC, "the disk is full: free some space"),
    sqlite3.SQLITE_READONLY: (
        errno.EROFS,
        "the disk is read-only: `dmesg` says why, a worn card often ends like this",
    ),
    sqlite3.SQLITE_IOERR: (
        errno.EIO,
        "the disk does not do what it is told: `dmesg` says why",
    ),
    sqlite3.SQLITE_CORRUPT: (
        errno.EIO,
        "state.db is damaged: start Tidegate again, it sets the file aside and begins a new one",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        errno.EACCES,
        "a file there cannot be opened: do all belong to the user that Tidegate runs as?",
    ),
    sqlite3.SQLITE_BUSY: (
        errno.EBUSY,
        "state.db is open in another program: close it, or copy the folder to look into it",
    ),
}
# Of these SQLite does not say which error of the system it was.
_HIDING = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
)
# The last: a table or a column is missing, so the file is not one that we made.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


class StateError(OSError):
    """The state folder cannot be used, or not now; the message says what to do."""


class DamagedError(sqlite3.DatabaseError):
    """A database that is not whole, found by a look at it."""


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary error code; 0 for what Python's module raises of its own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_damage(error: sqlite3.Error) -> bool:
    """Of an error while a database is opened and loaded."""
    # EIO on a read: this place on the disk is spoilt, elsewhere a new file may well be kept.
    extended = getattr(error, "sqlite_errorcode", 0)
    is_unreadable = extended == sqlite3.SQLITE_IOERR_CORRUPTFS
    return isinstance(error, DamagedError) or is_unreadable or code_of(error) in _DAMAGED


def from_sqlite(folder: Path | None, error: sqlite3.Error) -> StateError:
    return from_code(folder, code_of(error), str(error))


def from_code(folder: Path | None, code: int, detail: str = "") -> StateError:
    number, meaning = _MEANING.get(code, (errno.EIO, detail))
    if folder is None:
        return StateError(number, meaning)
    found = refusal(folder) if code in _HIDING else None
    if found is not None and not isinstance(found, PermissionError):
        number, meaning = found.errno or number, cause(found, folder)
    return StateError(number, f"gateway.state_dir {folder}: {meaning}")


def from_system(folder: Path, error: OSError) -> StateError:
    return StateError(error.errno, _advice(folder, error))


def _advice(folder: Path, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return f"gateway.state_dir {folder} {not_allowed(folder, 'gateway.state_dir')}"
    return f"gateway.state_dir {folder}: {cause(error, folder)}"
