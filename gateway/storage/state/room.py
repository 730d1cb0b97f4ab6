"""Space on the disk that is ours already, so that a full disk does not stop what makes room.

A commit on a full disk needs two things, and SQLite reserves neither. Its write-ahead log must have
blocks: so it is grown once to `WAL_BYTES` and never cut below (a checkpoint lets it begin again in
place), and outlives even a clean close (`keep_log`). And the log must be able to empty itself into
the database: so the database may only take pages that its file has (`PRAGMA max_page_count`), of
which some are kept free. Without the second, the log of a database that has nowhere to grow fills
up, and then not even a DELETE is committed.

Free pages are made by putting zeros into the table `room`, moving them into the file by a
checkpoint, and taking them out again. The file of a database never shrinks; it is as large as it
once had to be.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

PAGE_BYTES = 4096
# Kept free; below half of it more are made. As many frames are in the log at least.
FREE_PAGES = 128
# Of these: a page or two for each tree, when an update needs more space than the row had.
RESERVED_PAGES = 12
FRAME_BYTES = PAGE_BYTES + 24
WAL_BYTES = 32 + FREE_PAGES * FRAME_BYTES
# The log begins again after this many pages; what is left is for the largest commit on a full disk.
CHECKPOINT_PAGES = 64
# More than a single batch can want; where it ends, the disk has long been full.
FREE_PAGES_MAX = 1 << 16


class ReservedSpace:
    """Of a database in a file; `connection` is in write-ahead mode, outside a transaction."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def keep(self) -> None:
        """See to it that there is room, if the disk has any. Raises sqlite3.Error."""
        if self._log_bytes() < WAL_BYTES or self.is_scarce():
            self.grow(FREE_PAGES)
        self._limit_to(self._pragma("page_count"))

    def is_scarce(self) -> bool:
        return self._pragma("freelist_count") < FREE_PAGES // 2

    def is_spent(self) -> bool:
        """What is left is for that which makes room."""
        return self._pragma("freelist_count") < RESERVED_PAGES and not self.grow_more()

    def grow_more(self) -> bool:
        """Twice as many free pages as there are; on a small disk at least a few more."""
        free = self._pragma("freelist_count")
        if free >= FREE_PAGES_MAX:
            return False
        return self.grow(max(FREE_PAGES, 2 * free)) or self.grow(free + 16)

    def grow(self, free_pages: int) -> bool:
        """Have this many free pages; False when there are no more than before."""
        before = self._pragma("freelist_count")
        if not self._has_disk(self._octets_for(free_pages)):
            return False
        self._limit_to(self._pragma("page_count") + free_pages + 8)
        with suppress(sqlite3.OperationalError):
            self._put_in_and_take_out(free_pages)
        self._limit_to(self._pragma("page_count"))
        return self._pragma("freelist_count") > before

    def checkpoint(self) -> None:
        """Move the log into the database, so that it begins again."""
        self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()

    def _put_in_and_take_out(self, free_pages: int) -> None:
        execute = self._connection.execute
        try:
            execute("INSERT INTO room VALUES (zeroblob(?))", (free_pages * (PAGE_BYTES - 4),))
            self.checkpoint()
        finally:
            # Takes the zeros of a life that ended in between as well.
            execute("DELETE FROM room")

    def _octets_for(self, free_pages: int) -> int:
        """What the log and the file lack, and a little for the pages in between."""
        in_log = (free_pages + 8) * FRAME_BYTES - self._log_bytes()
        in_file = (free_pages + 8 - self._pragma("freelist_count")) * PAGE_BYTES
        return max(0, in_log) + max(PAGE_BYTES, in_file)

    def _limit_to(self, pages: int) -> None:
        self._connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()

    def _pragma(self, name: str) -> int:
        (number,) = self._connection.execute(f"PRAGMA {name}").fetchone()
        return int(number)

    def _log_bytes(self) -> int:
        with suppress(OSError):
            return log_of(self._path).stat().st_size
        return 0

    def _has_disk(self, octets: int) -> bool:
        """Take it and give it back: a quota does not show in what the disk says is free."""
        probe = self._path.with_name(self._path.name + ".probe")
        try:
            probe.touch(0o600)
            with probe.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, octets)
        except OSError:
            return False
        finally:
            with suppress(OSError):
                probe.unlink(missing_ok=True)
        return True


def keep_log(path: Path) -> None:
    """Before a clean close, at which SQLite removes its log: keep the file by a second name."""
    spare = _spare_of(path)
    with suppress(OSError):
        spare.unlink(missing_ok=True)
        os.link(log_of(path), spare)


def put_back_log(path: Path) -> None:
    """After it: give the log its name again, empty (a log is empty that begins with zeros)."""
    log, spare = log_of(path), _spare_of(path)
    try:
        if not log.exists():
            with spare.open("r+b") as file:
                file.write(bytes(32))
                file.flush()
                os.fsync(file.fileno())
            # SQLite syncs no name that it did not make; `StateStore.open` does.
            spare.rename(log)
    except OSError:
        pass  # The next start makes a new one, if there is room.
    finally:
        drop_spare(path)


def is_log_empty(path: Path) -> bool:
    """Whether the database has all of it, as after a clean close."""
    try:
        with log_of(path).open("rb") as file:
            return not any(file.read(32))
    except FileNotFoundError:
        return True
    except OSError:
        return False


def drop_spare(path: Path) -> None:
    with suppress(OSError):
        _spare_of(path).unlink(missing_ok=True)


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _spare_of(path: Path) -> Path:
    return path.with_name(path.name + ".spare")
