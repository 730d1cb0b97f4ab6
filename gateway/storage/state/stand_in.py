"""A state folder that can be read and not written at the start: a card that has turned read-only.

What is in it is read without a write: the database and the log beside it, put together in memory.
What is to be saved waits, as if the disk had begun to refuse while the gateway runs. Each commit
tries to open the folder as usual, so it goes on by itself where the disk takes writes again.

The epoch of this life cannot be saved. So it is drawn at random, above the one that is there: the
next run, which finds the same one, must not get the same as this.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gateway.core.state_records import Change
from gateway.storage.state.epoch import fresh_epoch
from gateway.storage.state.errors import StateError, from_sqlite, from_system
from gateway.storage.state.room import PAGE_BYTES, log_of
from gateway.storage.state.store import DATABASE_FILE, StateStore
from gateway.storage.state.wal import read_wal, with_pages


class StandInStore(StateStore):
    """The state in memory, and `problem`: why it could not be read, or None; it is empty then.
    What is committed goes to the folder, as soon as that can be opened.
    """

    def __init__(self, folder: Path, link_names: Sequence[str]) -> None:
        """Raises StateError for what belongs to a newer release."""
        self.problem: str | None = None
        try:
            super().__init__(_copy_of(folder), link_names)
            self.saved = self.load()
        except StateError:
            raise
        except OSError as error:
            self.problem = from_system(folder, error).strerror
        except (sqlite3.Error, TypeError, ValueError, AttributeError) as error:
            # The last: this build of SQLite reads none from memory.
            self.problem = f"state.db is damaged ({error})"
        if self.problem is not None:
            super().__init__(sqlite3.connect(":memory:", check_same_thread=False), link_names)
            self.saved = self.load()
        self._place = folder
        self._epoch_there = self.epoch
        self._store: StateStore | None = None
        self._epoch_here = self.raise_epoch(fresh_epoch([self.epoch or 0]))

    def raise_epoch(self, at_least: int, *, is_first: bool | None = None) -> int:
        """Of this life; saved as soon as something can be."""
        self._epoch_here = super().raise_epoch(at_least, is_first=is_first)
        return self._epoch_here

    def commit(self, changes: Sequence[Change]) -> None:
        """Raises StateError."""
        if self._store is None:
            self._store = self._open()
        self._store.commit(changes)
        self.file_bytes = self._store.file_bytes

    def close(self) -> None:
        super().close()
        if self._store is not None:
            self._store.close()

    def _open(self) -> StateStore:
        if self.problem is not None:
            raise StateError(
                errno.EIO, f"{self.problem}; once it can be read again, start Tidegate again"
            )
        try:
            store = StateStore.open(self._place, self._link_names)
            try:
                self._take_over(store)
            except BaseException:
                with suppress(sqlite3.Error, OSError):
                    store.close()
                raise
        except StateError:
            raise
        except OSError as error:
            raise from_system(self._place, error) from error
        except sqlite3.Error as error:
            raise from_sqlite(self._place, error) from error
        return store

    def _take_over(self, store: StateStore) -> None:
        """It is as it was at the start, without the rows that make no sense, and of our epoch."""
        if store.epoch == self._epoch_here:
            return  # a try before this one failed behind it
        if store.epoch != self._epoch_there:
            raise StateError(
                errno.ESTALE,
                f"gateway.state_dir {self._place}: state.db is another one than at the start: "
                "start Tidegate again",
            )
        store.load()
        store.raise_epoch(self._epoch_here - 1)


def _copy_of(folder: Path) -> sqlite3.Connection:
    """In memory, with what the log has. Raises OSError, sqlite3.Error."""
    database = (folder / DATABASE_FILE).read_bytes()
    log = log_of(folder / DATABASE_FILE)
    content = log.read_bytes() if log.exists() else b""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.deserialize(with_pages(database, read_wal(content, PAGE_BYTES)))
    return connection
