"""What is behind an error of the file system, and what to do: one place for all who report one.

The number of an error alone misleads: ENOSPC is also a file system without inodes, EROFS one that
can never be written, EFBIG a limit of the process. `cause` looks at the file system, so it is for
the start and for threads; `brief` looks at nothing, and may be called in the event loop.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path

from gateway.config.mounts import Mount, existing, mount_of
from gateway.host import limits

# Made once, as a whole: no option of mount(8) makes them writable.
IMAGES = frozenset({"squashfs", "iso9660", "erofs", "cramfs", "romfs"})
NAME_BYTES_MAX, PATH_BYTES_MAX = 255, 4095
PROBE_BYTES = 8192

# What a disk says that fails, was made read-only, or has no room: the folder is right, and may be
# so again. All else is for the operator to fix first.
FAILING = frozenset(
    {errno.EROFS, errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ENXIO, errno.EUCLEAN, errno.ENODEV}
)
_GONE = frozenset({errno.ENOTCONN, errno.ESTALE, errno.ESHUTDOWN, errno.ENODEV})


def cause(error: OSError, path: Path) -> str:
    """Of an error with this path or something in it; goes on after "PATH: "."""
    match error.errno:
        case errno.ENOSPC if has_no_inodes(path):
            return (
                "the file system has no inodes left, though it may have room: remove files that "
                f"nobody needs; `df -i {existing(path)}`"
            )
        case errno.ENOSPC:
            return f"the disk is full: free some space; `df -h {existing(path)}`"
        case errno.EROFS:
            return read_only(mount_of(path))
        case errno.EEXIST | errno.ENOTDIR | errno.ENOENT | errno.ELOOP:
            return in_the_way(path) or brief(error)
        case number if number in _GONE:
            mount = mount_of(path)
            where = "there" if mount is None else f"at {mount.point}"
            return f"the file system {where} has gone: mount it again"
        case _:
            return brief(error)


def brief(error: OSError) -> str:
    """Without a look at anything but the limits of this process."""
    limit = limits.named(error)
    if limit is not None:
        return str(limit)
    match error.errno:
        case errno.ENOSPC:
            return "no space or no inodes left on the disk: `df -h` and `df -i` tell which"
        case errno.EDQUOT:
            return "the disk quota of this user is used up: `quota -s`; have it raised"
        case errno.EFBIG:
            return "the file system takes no file of that size: use ext4"
        case errno.ENAMETOOLONG:
            return (
                f"the path is too long: {NAME_BYTES_MAX} bytes for each name and {PATH_BYTES_MAX} "
                "in all are the most"
            )
        case errno.ELOOP:
            return "symbolic links lead in a circle: remove one of them"
        case errno.EIO:
            return "the disk fails: replace it; `dmesg` says more"
        case _:
            return error.strerror or str(error)


def not_allowed(folder: Path, key: str) -> str:
    """What is to be done where this user may not write: "/x belongs to the user y: ...". One that
    has an owner is not taken from it.
    """
    owner = owner_of(folder)
    if owner is None:
        return f"may not be made by this user: `{make_command(folder)}`, or set another {key}"
    if owner != user_name():
        return (
            f"belongs to the user {owner}: run this as that one, "
            f"`{as_user(owner)} {again()}`, or set another {key}"
        )
    return f"may not be written by its owner: `{repair_command(folder)}`, or set another {key}"


def owner_of(folder: Path) -> str | None:
    """By name, or by number if it has none; of what hides it, if it is not to be seen. None if it
    is not there.
    """
    for each in (folder, *folder.parents):
        try:
            return _name_of(each.stat().st_uid)
        except PermissionError:
            continue
        except OSError:
            return None
    return None


def user_name() -> str:
    return _name_of(os.geteuid())


def make_command(folder: Path) -> str:
    """For this user, by its name."""
    return f"sudo install -d -m 0700 -o {user_name()} {quoted(folder)}"


def repair_command(folder: Path) -> str:
    """For the owner of the folder, whom something in it does not let in."""
    where = quoted(folder)
    return f"sudo chown -R {user_name()} {where} && chmod -R u+rwX {where}"


def as_user(name: str) -> str:
    return f"sudo -u '#{name}'" if name.isdecimal() else f"sudo -u {name}"


def again() -> str:
    """The command of this process, to be typed once more by another user."""
    from shlex import join  # of an error alone

    called = Path(sys.argv[0]).absolute()
    return join([str(called) if called.name == "tidegate" else "tidegate", *sys.argv[1:]])


def quoted(path: Path) -> str:
    from shlex import quote  # of an error alone

    return quote(str(path))


def _name_of(uid: int) -> str:
    from pwd import getpwuid

    try:
        return getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def read_only(mount: Mount | None) -> str:
    if mount is None:
        return "the file system is read-only: mount it for writing, or set another folder"
    if mount.file_system in IMAGES:
        return (
            f"{mount.point} is an image ({mount.file_system}) that can never be written: set a "
            "folder on another file system"
        )
    if mount.was_made_read_only:
        return (
            f"the kernel has made {mount.point} read-only after an error of the disk: `dmesg` says "
            "which; check the file system, replace the disk if need be"
        )
    return (
        f"{mount.point} is mounted read-only: `sudo mount -o remount,rw {mount.point}`, or set a "
        "folder on another file system"
    )


def in_the_way(path: Path) -> str | None:
    """The part of a path that is no folder, or None."""
    for each in (*reversed(path.parents), path):
        with suppress(OSError):
            if each.is_symlink() and not each.exists():
                target = os.readlink(each)  # noqa: PTH115 (as it is written there)
                return (
                    f"{each} is a symbolic link to {target}, which is not there: make that folder, "
                    "or remove the link"
                )
            if each.exists() and not each.is_dir():
                return f"{each} is not a folder: remove the file or set another path"
    return None


def is_there(path: Path) -> bool:
    """Or its disk does not even tell."""
    try:
        return os.stat(path).st_size > 0  # noqa: PTH116 (its errors count)
    except OSError as error:
        return error.errno in FAILING


def has_no_inodes(path: Path) -> bool:
    """Some file systems have no number of them, and say 0 of 0."""
    with suppress(OSError):
        found = os.statvfs(existing(path))
        return found.f_files > 0 and found.f_favail == 0
    return False


def is_too_long(path: Path, more: int = 0) -> bool:
    """With `more` bytes of names that are added to it."""
    encoded = os.fsencode(path)
    return len(encoded) + more > PATH_BYTES_MAX or any(
        len(part) > NAME_BYTES_MAX for part in encoded.split(b"/")
    )


def refusal(folder: Path) -> OSError | None:
    """What the system says when a small file is made there and grows like the largest one there:
    for a library that hides it (SQLite). None if it takes it.
    """
    path = folder / f"probe-{os.getpid()}"
    try:
        with os.scandir(folder) as entries:
            size = max((entry.stat(follow_symlinks=False).st_size for entry in entries), default=0)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # A limit of sizes cuts the first write short, and refuses the second.
            written = os.pwrite(file, bytes(PROBE_BYTES), size)
            if written < PROBE_BYTES:
                os.pwrite(file, bytes(PROBE_BYTES - written), size + written)
        finally:
            os.close(file)
            path.unlink(missing_ok=True)
    except OSError as error:
        return error
    return None
