"""Where the configuration of a backup goes, and the files that it names.

Paths are what the configuration says, and with the backup's own configuration the archive says it.
So of such a one only files in the configuration's folder, and secrets of the gateway in systemd's
store, are written; what lies elsewhere needs --force.

Rule 1: `plan_of` decides all of it before anything is written.
Rule 2: a file is written beside its place, durable, before any file changes its name.
Rule 3: rights are those of the backup without execution, and without writing for others. As root
        the owner is root, the gateway's user, or who has the file here.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from gateway.config.credential import KEYS_KEY, STORE, named_files, stored_at
from gateway.config.regular_file import read_regular
from gateway.config.settings import KEYS_FILE, Settings
from gateway.storage.backup.archive import BackupError, Owner
from gateway.storage.backup.guarded import Folder, Ids, Moves
from gateway.storage.backup.taking import FILE_BYTES_MAX
from gateway.storage.state.folder import OURS

SERVICE_USER = "tidegate"
KEPT_SUFFIX = ".before-restore"
_RIGHTS = 0o644
_SECRET_PREFIX = "tidegate."  # of credentials


@dataclass(frozen=True, slots=True)
class Placement:
    """`own`: the configuration's folder, if the file lies in it: then no link is followed below."""

    path: Path
    content: bytes
    mode: int
    owner: Ids | None
    own: Path | None


@dataclass(slots=True)
class Plan:
    """`missing`: files that the configuration names and that will not be there; `kept`: those that
    are there and stay; `outside`: those that are not written because of where they lie."""

    placements: list[Placement] = field(default_factory=list)
    missing: list[tuple[str, Path]] = field(default_factory=list)
    kept: list[tuple[str, Path]] = field(default_factory=list)
    outside: list[tuple[str, Path]] = field(default_factory=list)
    forced: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Given:
    """What of an archive is to be placed. `config`: its path and content, if it is restored."""

    config: tuple[Path, bytes, Owner] | None
    files: dict[str, tuple[bytes, Owner]]


def plan_of(
    given: Given,
    settings: Settings,
    user: Ids,
    *,
    is_forced: bool,
    left_out: Collection[str] = (),
) -> Plan:
    """`user`: the gateway's; `left_out`: what was there, and is not in the backup. Raises
    BackupError.
    """
    plan = Plan()
    own: Path | None = None
    if given.config is not None:
        config, content, owner = given.config
        config = _plain(config)
        own = config.parent
        _add(plan, Placement(config, content, 0, None, own), owner, user, is_forced=is_forced)
    state_dir = _plain(settings.gateway.state_dir)
    for key, written in _wanted(settings, {*given.files, *left_out}).items():
        named = stored_at(written)
        path = _plain(named)
        if key not in given.files:
            if not path.exists():
                plan.missing.append((key, named))
            continue
        if key == KEYS_KEY and path == state_dir / KEYS_FILE:
            _add_keys(plan, path, given.files[key][0], user)
            continue
        if path.is_relative_to(state_dir) and _is_of_the_state(path.relative_to(state_dir)):
            raise BackupError(f"{key} {named} would be a file of the state")
        content, owner = given.files[key]
        if _holds(path, content):
            continue
        is_inside = own is not None and _is_inside(path, own, state_dir)
        if is_inside or is_forced or _may_be_new(plan, key, named, own):
            new = Placement(path, content, 0, None, own if is_inside else None)
            _add(plan, new, owner, user, is_forced=is_forced)
        if is_forced and not is_inside:
            plan.forced.append(f"{key} {named} is written, outside of the configuration's folder")
    return plan


def _wanted(settings: Settings, of_backup: Collection[str]) -> dict[str, Path]:
    """What the configuration names; the keys of devices, if there were any."""
    wanted = named_files(settings)
    if KEYS_KEY in of_backup:
        wanted[KEYS_KEY] = settings.keys_file
    return wanted


def _add_keys(plan: Plan, path: Path, content: bytes, user: Ids) -> None:
    """In the state folder, as the gateway's own."""
    if not _holds(path, content):
        owner = user if os.geteuid() == 0 else None
        plan.placements.append(Placement(path, content, 0o600, owner, path.parent))


def _may_be_new(plan: Plan, key: str, named: Path, own: Path | None) -> bool:
    """Outside: never in the place of another file, and where this machine's configuration, or that
    of the service, has secrets."""
    path = _plain(named)
    if os.path.lexists(path):
        plan.kept.append((key, named))
    elif own is not None and not _is_credential(path):
        plan.outside.append((key, named))
    else:
        return True
    return False


def _plain(path: Path) -> Path:
    """Without `..`, and without a look at the disk."""
    return Path(os.path.normpath(path.absolute()))


def _is_of_the_state(path: Path) -> bool:
    return not path.parts or path.parts[0].startswith((*OURS, "."))


def _is_inside(path: Path, own: Path, state_dir: Path) -> bool:
    """Without a link on the way, and not in the state folder, which is another user's."""
    if not path.is_relative_to(own) or path.is_relative_to(state_dir):
        return False
    between = [each for each in path.parents if each.is_relative_to(own) and each != own]
    return not any(each.is_symlink() for each in between)


def _is_credential(path: Path) -> bool:
    return path.parent == STORE and path.name.startswith(_SECRET_PREFIX)


def _holds(path: Path, content: bytes) -> bool:
    with suppress(OSError):
        return read_regular(path, FILE_BYTES_MAX + 1) == content
    return False


def _add(plan: Plan, new: Placement, owner: Owner, user: Ids, *, is_forced: bool) -> None:
    if new.path.is_dir():
        raise BackupError(f"{new.path} is a folder here, and a file in the backup")
    for other in plan.placements:
        if other.path == new.path and other.content != new.content:
            raise BackupError(f"{new.path} is named twice by the configuration, as two files")
    ids, mode = _rights_of(new.path, owner, user)
    if ids is None:
        if not is_forced:
            raise BackupError(
                f"{new.path} belongs to {owner.user!r}:{owner.group!r} in the backup, who is "
                "neither root nor the gateway's user here: --force gives it to root and the "
                "gateway's group"
            )
        plan.forced.append(f"{new.path} is root's and the gateway's, and not {owner.user!r}'s")
        ids, mode = (0, user[1]), mode | 0o040
    if _holds(new.path, new.content):
        return
    placed = replace(new, mode=mode, owner=ids if os.geteuid() == 0 else None)
    plan.placements.append(placed)


def _rights_of(path: Path, owner: Owner, user: Ids) -> tuple[Ids | None, int]:
    """None for those of somebody else."""
    mode = owner.mode & _RIGHTS | 0o600
    if os.geteuid() != 0:
        return (-1, -1), mode
    try:
        uid, gid = pwd.getpwnam(owner.user).pw_uid, grp.getgrnam(owner.group).gr_gid
    except KeyError:
        # Who had it has no name there, or is not here: root's, and the gateway may read it.
        return (0, user[1]), mode | 0o040
    uids, gids = {0, user[0]}, {0, user[1]}
    with suppress(KeyError):
        service = pwd.getpwnam(SERVICE_USER)
        uids.add(service.pw_uid)
        gids.add(service.pw_gid)
    with suppress(OSError):
        there = path.lstat()
        uids.add(there.st_uid)
        gids.add(there.st_gid)
    return ((uid, gid) if uid in uids and gid in gids else None), mode


# Doing it


@dataclass(frozen=True, slots=True)
class Staged:
    """A file beside its place."""

    folder: Folder
    name: str

    @property
    def new_name(self) -> str:
        return f".{self.name}.restoring"

    @property
    def former_name(self) -> str:
        """Of what was kept by the restore before this one."""
        return f".{self.name}{KEPT_SUFFIX}.former"


@contextmanager
def staged(placements: list[Placement]) -> Iterator[list[Staged]]:
    """Raises BackupError, OSError. When it fails, what was not placed is removed."""
    found: list[Staged] = []
    made: list[tuple[Folder, str]] = []
    with ExitStack() as open_folders:
        try:
            for each in placements:
                one = Staged(_folder_of(each, open_folders, made), each.path.name)
                one.folder.remove(one.new_name)
                found.append(one)
                one.folder.write(one.new_name, (each.content,), each.mode, each.owner)
            yield found
        except BaseException:
            for one in found:
                with suppress(OSError):
                    one.folder.remove(one.new_name)
            for parent, name in reversed(made):
                with suppress(OSError):
                    os.rmdir(name, dir_fd=parent.descriptor)
            raise


def _folder_of(
    placement: Placement, open_folders: ExitStack, made: list[tuple[Folder, str]]
) -> Folder:
    parent = placement.path.parent
    if placement.own is None:
        return open_folders.enter_context(Folder.opened(parent))
    folder = open_folders.enter_context(Folder.opened(placement.own))
    for name in parent.relative_to(placement.own).parts:
        if not folder.has(name):
            made.append((folder, name))
        folder = open_folders.enter_context(folder.step(name))
    return folder


def place(each: Staged, moves: Moves) -> None:
    """The former one stays beside it."""
    folder, kept = each.folder, f"{each.name}{KEPT_SUFFIX}"
    if folder.has(each.name):
        if folder.has(kept):
            folder.remove(each.former_name)
            moves.rename(folder, kept, folder, each.former_name)
        moves.keep(folder, each.name, folder, kept)
    moves.rename(folder, each.new_name, folder, each.name)
    folder.sync()
