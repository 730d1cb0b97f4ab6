"""The database: opened, migrated, read whole, then written to in transactions.

WAL and `synchronous=FULL`: a commit is one append to the log and one sync, and survives power loss
(NORMAL would not). Used by one thread at a time; only `commit` and `close` once the gateway runs.

On a full disk deletions and small changes go on: at each start the log is grown by `BALLAST_BYTES`,
and it is written over from its beginning before it is longer than that; the database keeps pages
of the same size free.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from gateway.saved import Change, SavedState
from gateway.state.errors import StateError, advice
from gateway.state.rows import Loading, write

log = logging.getLogger("tidegate.state")

DATABASE = "state.db"
VERSION = 1
PAGE_BYTES = 4096
BALLAST_BYTES = 1 << 20
# Of the log, before it is carried over into the database: below the ballast.
CHECKPOINT_PAGES = BALLAST_BYTES // PAGE_BYTES * 3 // 4
BUSY_S = 5.0
DAMAGED_MAX = 8  # copies kept
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FULL = (sqlite3.SQLITE_FULL,)

Migration = Callable[[sqlite3.Connection], None]

# From each version to the next one.
MIGRATIONS: dict[int, Migration] = {}


class StateStore:
    """`saved` and `epoch` are what was found and what this life is."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        link_names: Sequence[str],
        path: Path = Path(":memory:"),
    ) -> None:
        """On an open database. Raises sqlite3.Error, or StateError for one of a newer release."""
        self.path = path
        self._connection = connection
        self._link_names = link_names
        connection.isolation_level = None
        _prepare(connection)
        loading = Loading(connection, link_names)
        self.saved: SavedState = loading.load()
        self.skipped = loading.skipped
        self.epoch = 0

    @classmethod
    def open(cls, folder: Path, link_names: Sequence[str]) -> StateStore:
        """Raises StateError with a sentence for the operator."""
        path = folder / DATABASE
        try:
            return cls._open(path, link_names)
        except sqlite3.Error as error:
            if _code(error) not in _DAMAGE:
                raise StateError(0, advice(folder, error)) from error
        copy = _put_aside(path)
        log.error(
            "%s is damaged; it is kept as %s. Sensors must connect again, and messages that "
            "waited for them are lost; readings are not concerned",
            path,
            copy.name,
        )
        try:
            return cls._open(path, link_names)
        except sqlite3.Error as error:
            raise StateError(0, advice(folder, error)) from error

    @classmethod
    def _open(cls, path: Path, link_names: Sequence[str]) -> StateStore:
        connection = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False)
        try:
            store = cls(connection, link_names, path)
            if store.skipped:
                log.warning("%d rows of %s make no sense and are left out", store.skipped, path)
            return store
        except BaseException:
            connection.close()
            raise

    def begin_life(self, former: int | None = None) -> int:
        """Raise the epoch, durably, above every one before, `former` included.

        A database without one begins at the seconds since 1970: a gateway whose card was replaced
        must not begin again where the one before began.
        """
        found = self._connection.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()
        known = [number for number in (former, found and found[0]) if number is not None]
        self.epoch = max(known, default=int(time.time())) + 1
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('epoch', ?)", (self.epoch,))
        return self.epoch

    def commit(self, changes: Iterable[Change]) -> None:
        """All of it, durably, or nothing. Raises sqlite3.Error."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            write(connection, changes, self._link_names)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()


def _prepare(connection: sqlite3.Connection) -> None:
    execute = connection.execute
    execute("PRAGMA journal_mode = WAL")
    execute("PRAGMA synchronous = FULL")
    execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    execute("PRAGMA temp_store = MEMORY")
    (version,) = execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise StateError(
            0,
            f"the state database is of a newer release (version {version}, this one writes "
            f"{VERSION}): install that release again, or set another gateway.state_dir",
        )
    if version == 0:
        _create(connection)
    for step in range(version or VERSION, VERSION):
        execute("BEGIN IMMEDIATE")
        MIGRATIONS[step](connection)
        execute(f"PRAGMA user_version = {step + 1}")
        execute("COMMIT")
    _take_ballast(connection)


def _create(connection: sqlite3.Connection) -> None:
    schema = files("gateway.state").joinpath("schema.sql").read_text(encoding="utf-8")
    connection.executescript(
        f"BEGIN IMMEDIATE;\n{schema}\nPRAGMA user_version = {VERSION};\nCOMMIT;"
    )


def _take_ballast(connection: sqlite3.Connection) -> None:
    """Pages in the log and in the database that a full disk cannot take away again."""
    execute = connection.execute
    try:
        execute("BEGIN IMMEDIATE")
        execute("CREATE TABLE ballast (octets BLOB)")
        execute("INSERT INTO ballast VALUES (zeroblob(?))", (BALLAST_BYTES,))
        execute("COMMIT")
        execute("DROP TABLE ballast")
        execute("PRAGMA wal_checkpoint(RESTART)")
    except sqlite3.OperationalError as error:
        with suppress(sqlite3.Error):
            execute("ROLLBACK")
        if _code(error) not in _FULL:
            raise
        log.warning("the disk is full: sessions may not be saved until there is room")


def _put_aside(path: Path) -> Path:
    number = 1
    while (copy := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
        if number > DAMAGED_MAX:
            break
    path.rename(copy)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(copy.with_name(copy.name + suffix))
    return copy


def _code(error: sqlite3.Error) -> int:
    """The primary result code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
