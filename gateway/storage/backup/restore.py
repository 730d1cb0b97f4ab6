"""Puts a backup in the place of what is there.

Rule 1: all of the archive is on this disk, and proven to be whole, before anything changes.
Rule 2: what was there is kept, in `before-restore` of the state folder, until the next restore.
Rule 3: while files change places the mark `restore.unfinished` keeps the gateway from starting
        with half of each; the next restore goes on from there.
Rule 4: the next epoch is above all that this gateway has used, also since the backup: an epoch
        that comes twice would let consumers drop new readings as repetitions of old ones. It is
        taken from the clock, which therefore must not be before the backup.
Rule 5: what the broker may have retained is that of the backup and that of the folder together:
        the start that follows clears there what it does not know any more.
Rule 6: files that the configuration names outside its own folder are written only where none is.
"""

from __future__ import annotations

import os
import pwd
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from gateway.config.settings import Settings
from gateway.storage.backup.archive import (
    ANNOUNCED_NAME,
    CONFIG_NAME,
    DATABASE_NAME,
    FILES,
    JOURNAL,
    BackupError,
    BackupHeader,
    Owner,
    Reader,
)
from gateway.storage.backup.taking import named_files
from gateway.storage.state.epoch import fresh_epoch
from gateway.storage.state.folder import EPOCH_FILE, LOCK_FILE, RESTORE_MARK, lock_folder
from gateway.storage.state.store import DATABASE_FILE, DISTRUST_FILE, epoch_in_remains, sync_folder

STATE = "state/"
ANNOUNCED = ANNOUNCED_NAME.removeprefix(STATE)
INCOMING = ".restoring"
BEFORE = "before-restore"
SERVICE_USER = "tidegate"
# What a gateway keeps in its folder; copies of what was damaged stay where they are.
STATE_NAMES = (
    DATABASE_FILE,
    f"{DATABASE_FILE}-wal",
    f"{DATABASE_FILE}-shm",
    DISTRUST_FILE,
    EPOCH_FILE,
    "journal",
)


@dataclass(slots=True)
class Contents:
    """What an archive holds, proven to be whole."""

    head: BackupHeader
    config: bytes | None = None
    config_owner: Owner = field(default_factory=Owner)
    files: dict[str, tuple[bytes, Owner]] = field(default_factory=dict)
    database_bytes: int | None = None
    segments: int = 0
    segment_bytes: int = 0


def read_head(path: Path) -> tuple[BackupHeader, bytes | None]:
    """What it is, and its configuration, before it is known to be whole."""
    reader = Reader(path)
    try:
        for part in reader.parts():
            return reader.head, part.read() if part.name == CONFIG_NAME else None
        return reader.head, None
    finally:
        reader.close()


def look(path: Path, into: Path | None = None) -> Contents:
    """Reads all of it, and puts the state into a folder if one is named. Raises BackupError."""
    reader = Reader(path)
    found = Contents(reader.head)
    try:
        for part in reader.parts():
            if part.name == CONFIG_NAME:
                found.config, found.config_owner = part.read(), part.owner
            elif part.name.startswith(FILES):
                found.files[part.name.removeprefix(FILES)] = part.read(), part.owner
            elif part.name.startswith(STATE):
                if part.name == DATABASE_NAME:
                    found.database_bytes = part.size
                elif part.name.startswith(JOURNAL):
                    found.segments += 1
                    found.segment_bytes += part.size
                if into is not None:
                    _write(into / part.name.removeprefix(STATE), part.pieces, 0o600)
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
    """`missing`: files that the configuration names and that are not there now; `kept`: those that
    are there and were left as they are."""

    contents: Contents
    epoch: int
    missing: list[tuple[str, Path]] = field(default_factory=list)
    kept: list[tuple[str, Path]] = field(default_factory=list)


def restore(path: Path, target: Target, settings: Settings) -> Restored:
    """`settings`: as they will be. Raises BackupError, StateError, OSError."""
    folder = target.state_dir
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = _owner_of(folder)
    lock = lock_folder(folder / LOCK_FILE)
    try:
        _refuse_what_would_be_lost(folder, target)
        incoming = folder / INCOMING
        shutil.rmtree(incoming, ignore_errors=True)
        (incoming / "journal").mkdir(mode=0o700, parents=True)
        try:
            contents = look(path, incoming)
            _check_clock(contents.head, target)
            if not target.with_readings:
                shutil.rmtree(incoming / "journal")
                (incoming / "journal").mkdir(mode=0o700)
            restored = Restored(contents, _next_epoch(folder))
            _join_announced(folder / ANNOUNCED, incoming / ANNOUNCED)
            _write(incoming / EPOCH_FILE, iter((b"%d\n" % restored.epoch,)), 0o600)
            _change_places(folder, owner, restored, target, settings)
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
    finally:
        os.close(lock)
    return restored


def _join_announced(there: Path, incoming: Path) -> None:
    """Of one topic the later line counts, and that is the folder's."""
    if there.exists() and incoming.exists():
        both = (incoming.read_bytes(), b"\n", there.read_bytes())
        _write(incoming, iter(both), 0o600)


def _refuse_what_would_be_lost(folder: Path, target: Target) -> None:
    there = [name for name in STATE_NAMES if (folder / name).exists()]
    if there and not target.is_forced and not (folder / RESTORE_MARK).exists():
        raise BackupError(
            f"{folder} holds a gateway's state already: --force moves it to {folder / BEFORE}, "
            "with readings that wait there"
        )


def _check_clock(head: BackupHeader, target: Target) -> None:
    if time.time() < head.taken_at and not target.is_forced:
        raise BackupError(
            "the clock of this machine is before the backup was taken, and new readings would be "
            "dropped as old ones: set it (timedatectl), or use --force if it is the backup's clock "
            "that was wrong"
        )


def _next_epoch(folder: Path) -> int:
    """Above the clock and what was there, and by chance one that was not used since the backup; the
    start that follows adds one.
    """
    known = [epoch_in_remains(each) for each in folder.glob(f"**/{DATABASE_FILE}*") if _is_db(each)]
    return fresh_epoch(known)


def _is_db(path: Path) -> bool:
    return not path.name.endswith(("-wal", "-shm", ".distrusted"))


def _change_places(
    folder: Path,
    owner: tuple[int, int] | None,
    restored: Restored,
    target: Target,
    settings: Settings,
) -> None:
    mark, before, incoming = folder / RESTORE_MARK, folder / BEFORE, folder / INCOMING
    if not mark.exists():
        shutil.rmtree(before, ignore_errors=True)
        mark.touch(mode=0o600)
        sync_folder(folder)
    before.mkdir(mode=0o700, exist_ok=True)
    _settle(incoming, owner)
    for name in STATE_NAMES:
        _set_aside(folder / name, before / name)
    for name in STATE_NAMES:
        if (incoming / name).exists():
            (incoming / name).rename(folder / name)
    if (incoming / ANNOUNCED).exists():
        (incoming / ANNOUNCED).replace(folder / ANNOUNCED)
    if target.config is not None and restored.contents.config is not None:
        _replace(target.config, restored.contents.config, restored.contents.config_owner)
    _write_files(restored, settings, target)
    for path in (before, folder / LOCK_FILE):
        _give(path, owner)
    sync_folder(before)
    sync_folder(folder)
    mark.unlink()
    sync_folder(folder)


def _set_aside(old: Path, kept: Path) -> None:
    """Of a restore that was interrupted, what is in the folder is new if the old one is kept."""
    if not old.exists():
        return
    if not kept.exists():
        old.rename(kept)
    elif old.is_dir():
        shutil.rmtree(old)
    else:
        old.unlink()


def _write_files(restored: Restored, settings: Settings, target: Target) -> None:
    own_folder = None if target.config is None else target.config.parent.absolute()
    for key, path in named_files(settings):
        given = restored.contents.files.get(key)
        is_ours = own_folder is not None and path.absolute().parent == own_folder
        if given is None or (path.exists() and not (is_ours or target.is_forced)):
            if not path.exists():
                restored.missing.append((key, path))
            elif given is not None and path.read_bytes() != given[0]:
                restored.kept.append((key, path))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, *given)


# Files


def _write(path: Path, pieces: Iterator[bytes], mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _replace(path: Path, octets: bytes, owner: Owner) -> None:
    """The former one stays beside it."""
    if path.exists() and path.read_bytes() == octets:
        return
    new = path.with_name(f".{path.name}.restoring")
    _write(new, iter((octets,)), 0o600)
    new.chmod(owner.mode)
    if os.geteuid() == 0 and owner.user:
        with suppress(LookupError):  # a user that this machine does not have
            shutil.chown(new, owner.user, owner.group or None)
    if path.exists():
        path.replace(path.with_name(f"{path.name}.before-restore"))
    new.replace(path)
    sync_folder(path.parent)


def _owner_of(folder: Path) -> tuple[int, int] | None:
    """Whose the state is to be: as root, that of the folder, or the service's in a new one."""
    if os.geteuid() != 0:
        return None
    status = folder.stat()
    if status.st_uid == 0:
        with suppress(KeyError):
            user = pwd.getpwnam(SERVICE_USER)
            os.chown(folder, user.pw_uid, user.pw_gid)
            return user.pw_uid, user.pw_gid
    return status.st_uid, status.st_gid


def _settle(folder: Path, owner: tuple[int, int] | None) -> None:
    for path in (folder, *folder.rglob("*")):
        _give(path, owner)
        if path.is_dir():
            sync_folder(path)


def _give(path: Path, owner: tuple[int, int] | None) -> None:
    if owner is not None:
        os.chown(path, *owner)


@contextmanager
def trial(config: Path, octets: bytes) -> Iterator[Path]:
    """The configuration of a backup beside the one that it would replace, so that relative paths
    lead where they will."""
    config.parent.mkdir(parents=True, exist_ok=True)
    path = config.with_name(f".{config.name}.{os.getpid()}.trial")
    _write(path, iter((octets,)), 0o600)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
