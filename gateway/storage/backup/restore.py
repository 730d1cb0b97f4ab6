"""Puts a backup in the place of what is there.

Rule 1: all of the archive is proven to be whole, and everything that could be in the way is looked
        for, before anything is written; all of it is on this disk before anything changes.
Rule 2: what was there is kept, in `before-restore` of the state folder, until the next restore.
Rule 3: while files change places the mark `restore.unfinished` keeps the gateway from starting
        with half of each. A restore that fails takes back what it did; after a power cut the next
        restore goes on from there.
Rule 4: the next epoch is above all that this gateway has used, also since the backup: an epoch
        that comes twice would let consumers drop new readings as repetitions of old ones. It is
        taken from the clock, which therefore must not be before the backup.
Rule 5: what the broker may have retained is that of the backup and that of the folder together:
        the start that follows clears there what it does not know any more.
Rule 6: the state folder may be another user's (guarded.py), and the archive anybody's: the paths in
        its configuration are not believed (placing.py).
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from gateway.config.settings import Settings
from gateway.storage.backup.archive import (
    ANNOUNCED_BYTES_MAX,
    CONFIG_NAME,
    DATABASE_NAME,
    FILES,
    JOURNAL,
    PRESENCE_NAMES,
    STATE,
    BackupError,
    BackupHeader,
    Owner,
    Part,
    Reader,
)
from gateway.storage.backup.guarded import Folder, Ids, Moves
from gateway.storage.backup.placing import SERVICE_USER, Given, Plan, Staged, place, plan_of, staged
from gateway.storage.state.epoch import fresh_epoch
from gateway.storage.state.folder import (
    EPOCH_FILE,
    LOCK_FILE,
    LOCK_FLAGS,
    OURS,
    RESTORE_MARK,
    hold_lock,
)
from gateway.storage.state.store import DATABASE_FILE, DISTRUST_FILE, epoch_in_remains

PRESENCE = tuple(each.removeprefix(STATE) for each in PRESENCE_NAMES)
INCOMING = ".restoring"
BEFORE = "before-restore"
FORMER = "before-restore.former"  # that of the restore before, until this one has succeeded
DISCARDED = "discarded."
JOURNAL_FOLDER = "journal"
# What a gateway keeps in its folder; copies of what was damaged stay where they are.
STATE_NAMES = (
    DATABASE_FILE,
    f"{DATABASE_FILE}-wal",
    f"{DATABASE_FILE}-shm",
    f"{DATABASE_FILE}.commits",
    DISTRUST_FILE,
    EPOCH_FILE,
    JOURNAL_FOLDER,
)
# What a restore makes as root, and gives away only then.
_OF_RESTORES = (INCOMING, BEFORE, FORMER, RESTORE_MARK, LOCK_FILE)
_FOLDERS = (JOURNAL_FOLDER, INCOMING, BEFORE, FORMER)
_ROOM_BYTES = 16 << 20  # for what a file system takes in addition


@dataclass(slots=True)
class Contents:
    """What an archive holds, proven to be whole."""

    head: BackupHeader
    config: bytes | None = None
    config_owner: Owner = field(default_factory=Owner)
    files: dict[str, tuple[bytes, Owner]] = field(default_factory=dict)
    database_bytes: int | None = None
    presence_bytes: int = 0
    segments: int = 0
    segment_bytes: int = 0
    checksums: dict[str, str] = field(default_factory=dict)


def look(path: Path, take: Callable[[Part], None] | None = None) -> Contents:
    """Reads all of it, and hands on each part of the state. Raises BackupError, OSError."""
    reader = Reader(path)
    found = Contents(reader.head)
    try:
        for part in reader.parts():
            if part.name == CONFIG_NAME:
                found.config, found.config_owner = part.read(), part.owner
            elif part.name.startswith(FILES):
                found.files[part.name.removeprefix(FILES)] = part.read(), part.owner
            else:
                if part.name == DATABASE_NAME:
                    found.database_bytes = part.size
                elif part.name in PRESENCE_NAMES:
                    found.presence_bytes += part.size
                else:
                    found.segments += 1
                    found.segment_bytes += part.size
                if take is not None:
                    take(part)
        found.checksums = reader.checksums
    finally:
        reader.close()
    return found


@dataclass(frozen=True, slots=True)
class Target:
    """Where it goes. `config` is None if the configuration stays as it is."""

    state_dir: Path
    config: Path | None
    is_forced: bool
    with_readings: bool


@dataclass(slots=True)
class Restored:
    """`forced`: what was done only because of --force, in sentences."""

    contents: Contents
    epoch: int
    plan: Plan

    @property
    def forced(self) -> list[str]:
        return self.plan.forced


def restore(path: Path, found: Contents, target: Target, settings: Settings) -> Restored:
    """`found`: what `look` saw; `settings`: as they will be. Raises BackupError, StateError,
    OSError, and then has changed nothing, unless the mark is there."""
    config = None
    if target.config is not None and found.config is not None:
        config = (target.config, found.config, found.config_owner)
    folder = target.state_dir
    owner = _future_owner(folder)
    given = Given(config, found.files)
    plan = plan_of(given, settings, owner, is_forced=target.is_forced, left_out=found.head.left_out)
    plan.forced[:0] = _check_clock(found.head, target)
    if os.path.lexists(folder):
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        with Folder.opened(folder) as state:
            plan.forced[:0] = _look_around(state, target)
    _check_room(folder, found)
    made = _MadeFolders()
    try:
        made.make(folder, 0o700, owner if os.geteuid() == 0 else None)
        if config is not None:
            made.make(config[0].parent, 0o755, None)
        for each in plan.placements:
            if each.own is None:
                made.make(each.path.parent, 0o755, None)
        with Folder.opened(folder) as state:
            epoch = _restore_into(state, path, found, target, plan, owner)
    except BaseException:
        made.take_back()
        raise
    return Restored(found, epoch, plan)


# Before anything is written


def _check_clock(head: BackupHeader, target: Target) -> list[str]:
    if time.time() >= head.taken_at:
        return []
    if not target.is_forced:
        raise BackupError(
            "the clock of this machine is before the backup was taken, and new readings would be "
            "dropped as old ones: set it (timedatectl), or use --force if it is the backup's clock "
            "that was wrong"
        )
    return ["the clock of this machine is before the backup was taken"]


def _look_around(state: Folder, target: Target) -> list[str]:
    """Raises BackupError for what is not a gateway's, not its user's, or would be lost."""
    for name in (*STATE_NAMES, *PRESENCE, *_OF_RESTORES):
        status = state.status(name)
        if status is not None:
            check = state.check_folder if name in _FOLDERS else state.check_file
            check(name, status, also_root=name in _OF_RESTORES)
    if state.has(RESTORE_MARK):
        return []
    there = [name for name in STATE_NAMES if state.has(name)]
    if there:
        if not target.is_forced:
            raise BackupError(
                f"{state.path} holds a gateway's state already: --force moves it to "
                f"{state.path / BEFORE}, with readings that wait there"
            )
        return [f"the state that was there is in {state.path / BEFORE}"]
    others = _not_ours(state)
    if not others:
        return []
    if not target.is_forced:
        raise BackupError(
            f"{state.path} holds no gateway's state but other files ({others[0][:100]!r}): "
            "--force puts one beside them"
        )
    return [f"{state.path} holds other files as well"]


def _not_ours(state: Folder) -> list[str]:
    ours = (*OURS, INCOMING, "lost+found")
    return sorted(name for name in state.names() if not name.startswith(ours))


def _check_room(folder: Path, found: Contents) -> None:
    place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    wanted = (found.database_bytes or 0) + found.segment_bytes + 2 * found.presence_bytes
    status = os.statvfs(place)
    free = status.f_bavail * status.f_frsize
    if wanted + _ROOM_BYTES > free:
        raise BackupError(
            f"{folder} has room for {free} bytes, and the state in the backup takes {wanted}: make "
            "room first"
        )


def _future_owner(folder: Path) -> Ids:
    """Whose the state is to be: as root, that of the folder, or the service's in a new one."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    with suppress(FileNotFoundError):
        status = folder.stat()
        if status.st_uid != 0:
            return status.st_uid, status.st_gid
        with Folder.opened(folder) as state:
            if _not_ours(state):
                return status.st_uid, status.st_gid
    with suppress(KeyError):
        user = pwd.getpwnam(SERVICE_USER)
        return user.pw_uid, user.pw_gid
    return 0, 0


class _MadeFolders:
    """Folders that were not there, whatever the umask."""

    def __init__(self) -> None:
        self._made: list[Path] = []

    def make(self, folder: Path, mode: int, owner: Ids | None) -> None:
        missing: list[Path] = []
        for each in (folder.absolute(), *folder.absolute().parents):
            if each.exists():
                break
            missing.append(each)
        for each in reversed(missing):
            each.mkdir()
            self._made.append(each)
            is_last = each == missing[0]
            each.chmod(mode if is_last else 0o755)
            if owner is not None and is_last:
                os.chown(each, *owner, follow_symlinks=False)

    def take_back(self) -> None:
        for each in reversed(self._made):
            with suppress(OSError):
                (each / LOCK_FILE).unlink(missing_ok=True)
                each.rmdir()


# All of it on this disk


def _restore_into(
    state: Folder, path: Path, found: Contents, target: Target, plan: Plan, owner: Ids
) -> int:
    gives_to = owner if os.geteuid() == 0 else None
    lock = _lock(state, gives_to)
    try:
        _look_around(state, target)  # again, as no gateway changes it now
        with _incoming(state) as incoming:
            _stage(path, found, incoming, gives_to, with_readings=target.with_readings)
            epoch = _next_epoch(state, incoming)
            incoming.write(EPOCH_FILE, (b"%d\n" % epoch,), 0o600, gives_to)
            for name in PRESENCE:
                _join(name, state, incoming)
            incoming.sync()
            with staged(plan.placements) as files:
                _change_places(state, incoming, files, gives_to)
    finally:
        os.close(lock)
    return epoch


def _lock(state: Folder, owner: Ids | None) -> int:
    path = state.path / LOCK_FILE
    try:
        lock = os.open(LOCK_FILE, LOCK_FLAGS, 0o600, dir_fd=state.descriptor)
    except OSError as error:
        status = state.status(LOCK_FILE)
        if status is not None:
            state.check_file(LOCK_FILE, status, also_root=True)  # a link, by now
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        state.check_file(LOCK_FILE, os.fstat(lock), also_root=True)
    except BaseException:
        os.close(lock)
        raise
    hold_lock(lock, path)
    try:
        os.fchmod(lock, 0o600)
        if owner is not None:
            os.fchown(lock, *owner)
    except BaseException:
        os.close(lock)
        raise
    return lock


@contextmanager
def _incoming(state: Folder) -> Iterator[Folder]:
    """A folder that no other user can look into, until what is in it has its place."""
    state.remove(INCOMING)
    try:
        state.make(INCOMING)
        with state.child(INCOMING, also_root=True) as incoming:
            if incoming.owner[0] != os.geteuid():
                raise BackupError(f"{incoming.path} was exchanged meanwhile")
            yield incoming
    finally:
        state.remove(INCOMING)


def _stage(
    path: Path, found: Contents, incoming: Folder, owner: Ids | None, *, with_readings: bool
) -> None:
    incoming.make(JOURNAL_FOLDER)
    incoming.give_folder(JOURNAL_FOLDER, owner, 0o700)
    with incoming.step(JOURNAL_FOLDER) as journal:

        def take(part: Part) -> None:
            if not part.name.startswith(JOURNAL):
                incoming.write(part.name.removeprefix(STATE), part.pieces, 0o600, owner)
            elif with_readings:
                journal.write(part.name.removeprefix(JOURNAL), part.pieces, 0o600, owner)

        again = look(path, take)
        journal.sync()
    if again.checksums != found.checksums:
        raise BackupError(f"{path} was changed while it was read")


def _join(name: str, state: Folder, incoming: Folder) -> None:
    """Of one topic, or device, the later line counts, and that is the folder's."""
    if not (state.has(name) and incoming.has(name)):
        return
    with state.reading(name) as there:
        known = there.read(ANNOUNCED_BYTES_MAX)
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
    descriptor = os.open(name, flags, dir_fd=incoming.descriptor)
    with os.fdopen(descriptor, "ab") as file:
        file.write(b"\n" + known)
        file.flush()
        os.fsync(descriptor)


def _next_epoch(state: Folder, incoming: Folder) -> int:
    """Above the clock and what was there, and by chance one that was not used since the backup; the
    start that follows adds one.
    """
    known = [*_epochs_in(state), epoch_in_remains(incoming.path / DATABASE_FILE)]
    for name in (BEFORE, FORMER):
        status = state.status(name)
        if status is not None and stat.S_ISDIR(status.st_mode):
            with state.child(name, also_root=True) as folder:
                known += _epochs_in(folder)
    return fresh_epoch(known)


def _epochs_in(folder: Folder) -> Iterator[int]:
    for name in folder.names():
        if name.startswith(DATABASE_FILE) and _is_db(name):
            with folder.reading(name):  # or it is refused
                yield epoch_in_remains(folder.path / name)


def _is_db(name: str) -> bool:
    return not name.endswith(("-wal", "-shm", ".distrusted", ".commits", ".spare", ".probe"))


# The change


def _change_places(state: Folder, incoming: Folder, files: list[Staged], owner: Ids | None) -> None:
    was_interrupted = state.has(RESTORE_MARK)
    moves = Moves()
    with ExitStack() as stack:  # open until all is done, or taken back
        try:
            if not was_interrupted:
                _keep_former(state, moves)
                state.write(RESTORE_MARK, (), 0o600, owner)
                state.sync()
            if not state.has(BEFORE):
                moves.make(state, BEFORE)
            state.give_folder(BEFORE, owner, 0o700)
            before = stack.enter_context(state.child(BEFORE, also_root=True))
            _exchange(state, incoming, before, moves)
            before.sync()
            for each in files:
                place(each, moves)
            _give_state(state, owner)
            state.sync()
            state.remove(RESTORE_MARK)
        except BaseException:
            if not was_interrupted:
                moves.take_back()
                state.remove(RESTORE_MARK)
                state.sync()
            raise
    # It is done: at worst the mark comes back with a power cut, and a restore is asked for again.
    with suppress(OSError):
        state.sync()
    with suppress(OSError):
        state.remove(FORMER)
        for each in files:
            each.folder.remove(each.former_name)


def _give_state(state: Folder, owner: Ids | None) -> None:
    if not _not_ours(state):
        os.fchmod(state.descriptor, 0o700)
    if owner is not None and owner != state.owner:
        os.fchown(state.descriptor, *owner)


def _keep_former(state: Folder, moves: Moves) -> None:
    """What the restore before this one kept goes when this one has succeeded. If both are there,
    one was cut off after it had; if only the former, before it had begun."""
    if state.has(FORMER):
        if state.has(BEFORE):
            state.remove(FORMER)
        else:
            state.rename(FORMER, state, BEFORE)
    if state.has(BEFORE):
        moves.rename(state, BEFORE, state, FORMER)


def _exchange(state: Folder, incoming: Folder, before: Folder, moves: Moves) -> None:
    """Of a restore that was interrupted, what is in the folder is new if the old one is kept."""
    for name in STATE_NAMES:
        if not state.has(name):
            continue
        if before.has(name):
            moves.rename(state, name, incoming, f"{DISCARDED}{name}")
        else:
            moves.rename(state, name, before, name)
    for name in STATE_NAMES:
        if incoming.has(name):
            moves.rename(incoming, name, state, name)
    for name in PRESENCE:
        if incoming.has(name):
            if state.has(name):
                moves.keep(state, name, incoming, f"{DISCARDED}{name}")
            moves.rename(incoming, name, state, name)
