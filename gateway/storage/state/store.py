"""The database of what outlasts a restart: a transaction and one sync for each `commit`.

Synchronous, without a clock; used by one thread at a time, whichever it is. SQLite is in
write-ahead mode with synchronous=FULL: in power-cut tests FULL lost nothing in 900 states, NORMAL
lost committed rows in 83 % of them. The connection has the file for itself
(locking_mode=EXCLUSIVE), so no shared memory file is needed, for which a full disk has no room.

The simulator hands over a connection to ":memory:" and, after a kill, the same one to the next
run. A kill in the middle of a commit is a rollback.
"""

from __future__ import annotations

import errno
import gc
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Self

from gateway.core.state_records import Change, StateRecords
from gateway.storage.state.commit_notes import CommitNotes
from gateway.storage.state.epoch import EPOCH_MAX
from gateway.storage.state.errors import DamagedError, StateError, code_of, from_code, from_sqlite
from gateway.storage.state.migrations import migrate
from gateway.storage.state.room import (
    CHECKPOINT_PAGES,
    FREE_PAGES,
    PAGE_BYTES,
    WAL_BYTES,
    ReservedSpace,
    drop_spare,
    is_log_empty,
    keep_log,
    put_back_log,
)
from gateway.storage.state.rows import (
    RowReader,
    RowWriter,
    makes_room,
    remove_nonsense,
    remove_undecodable,
)

DATABASE_FILE = "state.db"
# Says that a commit has found damage, which the next start might not see.
DISTRUST_FILE = "state.db.distrusted"
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# Each doubles the free pages, or takes the last few of the disk.
GROWTHS_MAX = 12

_PRAGMAS = (
    f"PRAGMA page_size = {PAGE_BYTES}",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}",
    f"PRAGMA journal_size_limit = {WAL_BYTES}",
    # Rows that are gone need not be overwritten: it would double what a DELETE writes.
    "PRAGMA secure_delete = OFF",
    # No files of its own elsewhere, where the disk may be full or somebody else's.
    "PRAGMA temp_store = MEMORY",
)


class StateStore:
    """`skipped`: rows that made no sense when they were loaded, and were removed. `file_bytes`: the
    size of the database after the last commit.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        link_names: Sequence[str] = (),
        path: Path | None = None,
    ) -> None:
        """Takes the connection over and brings the database to today's schema.

        Raises StateError for a newer one, sqlite3.Error for what SQLite refuses.
        """
        self.skipped = 0
        self.file_bytes = 0
        self._connection: sqlite3.Connection | None = connection
        self._path = path
        self._folder = path.parent if path is not None else None
        self._link_names = tuple(link_names)
        self._writer = RowWriter(link_names)
        self._notes: CommitNotes | None = None
        # The last commit, by the disk: SQLite takes what it then cannot read for damage.
        self._has_failed = False
        connection.isolation_level = None
        for pragma in _PRAGMAS:
            connection.execute(pragma).fetchone()
        _examine(connection)
        migrate(connection)
        self._room = ReservedSpace(connection, path) if path is not None else None
        if self._room is not None:
            self._room.keep()
        if path is not None:
            self._notes = CommitNotes(path)
        self._file = _identity(path)
        self._measure()

    @classmethod
    def open(cls, folder: Path, link_names: Sequence[str] = ()) -> Self:
        """The database in this folder. Raises StateError, OSError, sqlite3.Error."""
        path = folder / DATABASE_FILE
        # Made by us and not by SQLite, which keeps the system's reason for a refusal to itself.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        drop_spare(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        try:
            store = cls(connection, link_names, path)
            # The names of the files; SQLite syncs only those that it made itself.
            sync_folder(folder)
        except BaseException:
            connection.close()
            raise
        return store

    # At the start

    def load(self) -> StateRecords:
        """All that is there and makes sense; the rest is removed and counted.

        Raises sqlite3.Error if the file is damaged or nothing can be removed.
        """
        # Hundreds of thousands of new objects and no cycle among them: half of the time is saved.
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return self._load()
        finally:
            if was_enabled:
                gc.enable()

    def raise_epoch(self, at_least: int, *, is_first: bool | None = None) -> int:
        """The next epoch, durable when this returns: above the last one and `at_least`.

        `is_first`: whether this gateway had none before, if that is known; see `first_epoch`.
        """
        epoch = max(self.epoch or 0, at_least) + 1
        with self._transaction() as connection:
            connection.execute("REPLACE INTO meta VALUES ('epoch', ?)", (epoch,))
            if is_first is not None:
                connection.execute("DELETE FROM meta WHERE name = 'first_epoch'")
            if is_first:
                connection.execute("INSERT INTO meta VALUES ('first_epoch', ?)", (epoch,))
        # Into the database itself, so that damage to the log cannot take it back.
        with suppress(StateError):
            self.checkpoint()
        return epoch

    @property
    def epoch(self) -> int | None:
        """The last one; None if the database is new, or has one that cannot be."""
        return _epoch_in(self._opened)

    @property
    def first_epoch(self) -> int | None:
        """That of this gateway's first life, if this database has been there since."""
        return _epoch_in(self._opened, "first_epoch")

    # While it runs

    def commit(self, changes: Sequence[Change]) -> None:
        """All or nothing, in order, durable when this returns. Raises StateError."""
        self._look_for_file()
        try:
            self._commit(changes)
            if self._notes is not None:
                self._notes.note(changes)
            self._measure()
            self._has_failed = False
        except sqlite3.Error as error:
            code = code_of(error)
            if code in _CORRUPT and self._has_failed:
                code = sqlite3.SQLITE_IOERR
            elif code in _CORRUPT:
                self._distrust()
            self._has_failed = code == sqlite3.SQLITE_IOERR
            # The log begins again, so that the next try, of less perhaps, has all of it.
            with suppress(StateError):
                self.checkpoint()
            raise from_code(self._folder, code, str(error)) from error

    def checkpoint(self) -> None:
        """Move the log into the database. Raises StateError."""
        try:
            self._opened.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        except sqlite3.Error as error:
            raise from_sqlite(self._folder, error) from error

    def close(self) -> None:
        """Twice does no harm. What is not committed is rolled back."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._path is not None:
            keep_log(self._path)
        connection.close()
        if self._path is not None:
            put_back_log(self._path)
        if self._notes is not None:
            self._notes.close(is_clean=self._path is not None and is_log_empty(self._path))

    # Helpers

    @property
    def _opened(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._opened
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            # SQLite has rolled some back by itself, of a full disk for one.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _load(self) -> StateRecords:
        with self._transaction() as connection:
            self.skipped += remove_nonsense(connection)
        reader = RowReader(self._opened, self._link_names)
        try:
            return reader.read()
        except sqlite3.OperationalError as error:
            # Python's own, which has no code: a text that is not UTF-8.
            if code_of(error) != 0:
                raise
        with self._transaction() as connection:
            self.skipped += remove_undecodable(connection)
            self.skipped += remove_nonsense(connection)
        return reader.read()

    def _look_for_file(self) -> None:
        """What is written to a file without a name is gone when we are."""
        if _identity(self._path) != self._file:
            raise StateError(
                errno.ENOENT,
                f"gateway.state_dir {self._folder}: state.db was removed or replaced while Tidegate"
                " ran: start it again",
            )

    def _measure(self) -> None:
        with suppress(OSError):
            self.file_bytes = 0 if self._path is None else self._path.stat().st_size

    def _distrust(self) -> None:
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / DISTRUST_FILE).touch(0o600)
                sync_folder(self._folder)

    def _commit(self, changes: Sequence[Change]) -> None:
        if self._room is not None and not makes_room(changes) and self._room.is_spent():
            raise from_code(self._folder, sqlite3.SQLITE_FULL)
        for _ in range(GROWTHS_MAX):
            try:
                self._write(changes)
                break
            except sqlite3.OperationalError as error:
                # Of the pages that the file may take; whether the disk has more is to be seen.
                is_full = code_of(error) == sqlite3.SQLITE_FULL
                if self._room is None or not is_full or not self._room.grow_more():
                    raise
        else:
            self._write(changes)
        # What goes wrong here says nothing about the commit, and shows at the next one.
        with suppress(sqlite3.Error):
            if self._room is not None and self._room.is_scarce():
                self._room.grow(FREE_PAGES)

    def _write(self, changes: Sequence[Change]) -> None:
        with self._transaction() as connection:
            self._writer.write(connection, changes)


def _examine(connection: sqlite3.Connection) -> None:
    """Before anything is written. Of 100,000 rows it takes 10 ms."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise DamagedError(found.splitlines()[-1])


def _identity(path: Path | None) -> tuple[int, int] | None:
    """Which file has this name."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found is not None else None


def epoch_in_remains(path: Path) -> int:
    """Of a damaged database, without its log and without touching it; 0 if it cannot be read."""
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as remains:
            return _epoch_in(remains) or 0
    except (sqlite3.Error, ValueError):
        return 0


def _epoch_in(connection: sqlite3.Connection, name: str = "epoch") -> int | None:
    query = (
        "SELECT value FROM meta WHERE name = ? AND typeof(value) = 'integer' "
        f"AND value BETWEEN 0 AND {EPOCH_MAX}"
    )
    row = connection.execute(query, (name,)).fetchone()
    return int(row[0]) if row is not None else None


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
