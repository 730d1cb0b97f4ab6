"""The state folder: locked for this process, with the database and the gateway's epoch in it.

The epoch counts the lives of the gateway and is raised durably at every start. With the gateway's
name and a reading's sequence it names the reading for ever, so a number must never be used twice.
A new database begins with one that is drawn at random (epoch.py): a gateway whose card was
replaced, or whose folder is empty at each boot, must not begin again where the one before began.
One whose database is damaged goes on above the epochs that the damaged ones have, if they can still
be read, and above those that the journal has (`StateFolder.raised_above`).

A damaged database is kept beside the new one, under another name, `DAMAGED_KEPT` of them at most.
So is one whose write-ahead log has lost commits; it goes on with what is left (commit_notes.py).

A folder that a previous run has used and that takes no writes is read all the same (stand_in.py).
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gateway.config.settings import KEYS_FILE
from gateway.core.state_records import StateRecords
from gateway.host.causes import FAILING, brief, in_the_way, is_there
from gateway.storage.state.commit_notes import LostCommits, lost_commits
from gateway.storage.state.epoch import EPOCH_MAX, fresh_epoch
from gateway.storage.state.errors import (
    DamagedError,
    StateError,
    from_sqlite,
    from_system,
    is_damage,
)
from gateway.storage.state.store import (
    DATABASE_FILE,
    DISTRUST_FILE,
    StateStore,
    epoch_in_remains,
    sync_folder,
)

log = logging.getLogger("tidegate.state")

LOCK_FILE = "lock"
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# A restore that is under way, or was interrupted.
RESTORE_MARK = "restore.unfinished"
# Of former versions, which had a file for it; its number is taken over once.
EPOCH_FILE = "epoch"
EPOCH_DIGITS_MAX = 15
DAMAGED_KEPT = 3
# More than there ever are: an epoch so far ahead was drawn at random, for a restore or a stand-in.
RUNS_MAX = 100_000
# What the names of our own files begin with.
OURS = (
    *(DATABASE_FILE, LOCK_FILE, EPOCH_FILE),
    *("journal", "announced.", "restore.", "before-restore", KEYS_FILE, "audit.", "admin.sock"),
)


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The folder, locked for this process until `release`, and what previous runs left in it."""

    path: Path
    epoch: int
    lock: int | None  # None where the disk does not even answer
    store: StateStore
    saved: StateRecords
    lost: LostCommits | None = None
    trouble: StateError | None = None  # nothing can be saved, for now

    @property
    def run(self) -> int | None:
        """Which run of the gateway this is, from 1 on; None where a former one may have saved what
        is not there any more.
        """
        if self.lost is not None or self.trouble is not None:
            return None
        first = self.store.first_epoch
        # Former versions counted epochs from 1.
        run = self.epoch if first is None else self.epoch - first + 1
        return run if run <= RUNS_MAX else None

    def raised_above(self, epoch: int) -> StateFolder:
        """The journal has readings of this epoch, and may have outlived the database. Raises
        StateError.
        """
        if epoch < self.epoch:
            return self
        log.warning(
            "readings of epoch %d are older than the state database: a new one begins", epoch
        )
        try:
            raised = self.store.raise_epoch(fresh_epoch([epoch]), is_first=False)
            return replace(self, epoch=raised)
        except sqlite3.Error as error:
            raise from_sqlite(self.path, error) from error

    def release(self) -> None:
        try:
            self.store.close()
        finally:
            if self.lock is not None:
                os.close(self.lock)


def open_state(path: Path, link_names: Sequence[str] = ()) -> StateFolder:
    """Make the folder if need be, lock it, load what is there and start a new epoch.

    `link_names`: those of this configuration, by link number. Raises StateError.
    """
    try:
        return _open_for_writing(path, link_names)
    except StateError as error:
        if not isinstance(error.__cause__, sqlite3.Error | OSError):
            raise
        if error.errno not in FAILING or not is_there(path / DATABASE_FILE):
            raise
        return _open_for_reading(path, link_names, error)


def _open_for_writing(path: Path, link_names: Sequence[str]) -> StateFolder:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _keep_private(path)
        lock = lock_folder(path / LOCK_FILE)
        try:
            refuse_half_restored(path)
            lost = _look_at_log(path)
            store, saved, epoch = _open_store(path, link_names)
        except BaseException:
            os.close(lock)
            raise
    except StateError:
        raise
    except OSError as error:
        raise from_system(path, error) from error
    except sqlite3.Error as error:
        raise from_sqlite(path, error) from error
    return StateFolder(path=path, epoch=epoch, lock=lock, store=store, saved=saved, lost=lost)


def _open_for_reading(path: Path, link_names: Sequence[str], error: StateError) -> StateFolder:
    from gateway.storage.state.stand_in import StandInStore  # seldom needed

    lock = _lock_for_reading(path)
    try:
        refuse_half_restored(path)
        lost = lost_commits(path / DATABASE_FILE)
        store = StandInStore(path, link_names)
    except BaseException:
        if lock is not None:
            os.close(lock)
        raise
    log.error(
        "%s: the gateway starts all the same, with what can be read there. Sessions are kept in "
        "memory alone until it can be written again",
        error.strerror,
    )
    if store.problem is not None:
        log.error(
            "sessions, subscriptions and waiting messages cannot be read (%s): sensors have to "
            "connect again",
            store.problem,
        )
    if lost is not None:
        log.error("%s", lost)
    epoch = store.epoch
    assert epoch is not None
    return StateFolder(
        path=path,
        epoch=epoch,
        lock=lock,
        store=store,
        saved=store.saved,
        lost=lost,
        trouble=error,
    )


def _lock_for_reading(path: Path) -> int | None:
    """Raises StateError if another gateway has it."""
    for each, flags in ((path / LOCK_FILE, os.O_NOFOLLOW), (path, os.O_DIRECTORY)):
        try:
            lock = os.open(each, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
        except OSError:
            continue
        hold_lock(lock, path / LOCK_FILE)
        return lock
    return None


def refuse_half_restored(path: Path) -> None:
    """Raises StateError."""
    if (path / RESTORE_MARK).exists():
        raise StateError(
            errno.EINVAL,
            f"gateway.state_dir {path}: a restore was interrupted and only half of it is "
            "there: type  tidegate restore FILE  again",
        )


def refuse_unusable(path: Path) -> None:
    """Raises StateError as `open_state` would, for what can be seen without a change to the folder
    by any user: not for rights, nor for what is in a folder that this user may not enter.
    """
    found = in_the_way(path)
    if found is not None:
        raise StateError(errno.ENOTDIR, f"gateway.state_dir {path}: {found}")
    with suppress(PermissionError):
        refuse_half_restored(path)


def lock_folder(path: Path) -> int:
    """Until the descriptor is closed. Raises StateError, OSError."""
    lock = os.open(path, LOCK_FLAGS, 0o600)
    hold_lock(lock, path)
    return lock


def hold_lock(lock: int, path: Path) -> None:
    """The same with a file that is open already; it is closed if this fails."""
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
    # In place, because on a full disk there is no second block; and without it no harm is done.
    with suppress(OSError):
        os.pwrite(lock, b"%-19d\n" % os.getpid(), 0)


def _keep_private(folder: Path) -> None:
    """The one that may write to the folder could take its files away. A folder that has more than
    ours is the operator's, and stays as it is.
    """
    status = folder.stat()
    if not status.st_mode & 0o077:
        return
    with suppress(OSError):
        has_ours_only = all(path.name.startswith(OURS) for path in folder.iterdir())
        if has_ours_only and status.st_uid == os.geteuid():
            folder.chmod(0o700)
            log.info("gateway.state_dir %s is now for its owner alone (mode 0700)", folder)
            return
    if status.st_mode & 0o022:
        log.warning(
            "gateway.state_dir %s can be changed by other users of this machine: chmod 0700 %s",
            folder,
            folder,
        )


# The database


def _look_at_log(folder: Path) -> LostCommits | None:
    """What the log has lost, before SQLite writes to it."""
    database = folder / DATABASE_FILE
    lost = lost_commits(database)
    if lost is None:
        return None
    copy = _free_name(folder)
    try:
        for suffix in ("-wal", ""):
            if (part := folder / f"{DATABASE_FILE}{suffix}").exists():
                _write_private(copy.with_name(copy.name + suffix), part.read_bytes())
        kept = f"as they were found, state.db and its log are kept as {copy.name}"
    except OSError as error:
        kept = f"a copy could not be kept ({brief(error)})"
    _remove_old(folder)
    log.error(
        "%s. What these sessions had registered or subscribed last may be lost, and messages that "
        "waited for them; %s. `tidegate doctor --disk` measures the disk",
        lost,
        kept,
    )
    return lost


def _open_store(folder: Path, link_names: Sequence[str]) -> tuple[StateStore, StateRecords, int]:
    try:
        if (folder / DISTRUST_FILE).exists():
            raise DamagedError("as a commit found")
        return _open_and_load(folder, link_names)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        why = str(error)
    except (TypeError, ValueError) as error:
        # Of a schema that is not even text, or a table with other columns than ours.
        why = repr(error)
    kept = _set_aside(folder)
    log.warning(
        "%s was damaged (%s) and is kept as %s; a new one begins: sensors have to connect, "
        "register and subscribe again, and messages that waited here for them are lost",
        folder / DATABASE_FILE,
        why,
        kept.name,
    )
    return _open_and_load(folder, link_names)


def _open_and_load(folder: Path, link_names: Sequence[str]) -> tuple[StateStore, StateRecords, int]:
    store = StateStore.open(folder, link_names)
    try:
        saved = store.load()
        if store.skipped:
            log.warning(
                "%s: rows that made no sense and were removed: %d",
                folder / DATABASE_FILE,
                store.skipped,
            )
        epoch = _raise_epoch(folder, store)
    except BaseException:
        store.close()
        raise
    return store, saved, epoch


def _write_private(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
        file.write(content)


def _set_aside(folder: Path) -> Path:
    """The database and its log under the next free number."""
    aside = _free_name(folder)
    for suffix in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            (folder / f"{DATABASE_FILE}{suffix}").rename(aside.with_name(aside.name + suffix))
    _remove_old(folder)
    # Last: until then a kill must not make the next start trust what is still there.
    (folder / DISTRUST_FILE).unlink(missing_ok=True)
    sync_folder(folder)
    return aside


def _free_name(folder: Path) -> Path:
    kept = _damaged(folder)
    number = _number_of(kept[-1]) + 1 if kept else 1
    return folder / f"{DATABASE_FILE}.damaged-{number}"


def _remove_old(folder: Path) -> None:
    for old in _damaged(folder)[:-DAMAGED_KEPT]:
        for suffix in ("-wal", "-shm", ""):
            old.with_name(old.name + suffix).unlink(missing_ok=True)


def _damaged(folder: Path) -> list[Path]:
    found = folder.glob(f"{DATABASE_FILE}.damaged-*")
    return sorted((path for path in found if _number_of(path)), key=_number_of)


def _number_of(path: Path) -> int:
    number = path.name.rpartition("-")[2]
    return int(number) if number.isdecimal() and number.isascii() else 0


# The epoch


def _raise_epoch(folder: Path, store: StateStore) -> int:
    file = folder / EPOCH_FILE
    least = _read(file)
    is_first = None
    if least is None and store.epoch is None:
        remains = _damaged(folder)
        least, is_first = fresh_epoch(map(epoch_in_remains, remains)), not remains
    epoch = store.raise_epoch(least or 0, is_first=is_first)
    if file.exists():
        file.unlink()
        sync_folder(folder)
    return epoch


def _read(path: Path) -> int | None:
    try:
        found = path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return None
    if found.isdigit() and len(found) <= EPOCH_DIGITS_MAX and int(found) <= EPOCH_MAX:
        return int(found)
    least = fresh_epoch()
    log.warning("%s is damaged (%.20r), going on with epoch %d", path, found, least + 1)
    return least
