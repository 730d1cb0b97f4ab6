"""Which file a path leads to, without asking for its times.

Since Linux 6.13 the next write to a file whose times were asked for gives it a new one (multigrain
timestamps), and fdatasync then writes the inode as well. After each sync of the journal that would
be a second block for each group: a single reading costs the card 8.4 kB instead of 4.4. Python's
`os.stat` always asks for all; statx(2) takes a mask.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable
from pathlib import Path

Identity = tuple[int, int]  # device and inode: the same as long as it is the same file

_Look = Callable[[str], Identity]  # raises OSError

_AT_FDCWD = -100
_STATX_INO = 0x100
_Statx = ctypes.c_char * 256
_FOUND = struct.Struct("=32xQ96xII")  # struct statx: stx_ino, stx_dev_major, stx_dev_minor


def file_identity(path: Path) -> Identity | None:
    """None if nothing is there. Links are followed. Raises OSError."""
    try:
        return _look(os.fspath(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _by_stat(path: str) -> Identity:
    status = os.stat(path)  # noqa: PTH116 - a Path's own costs twice as much
    return status.st_dev, status.st_ino


def _by_statx() -> _Look | None:
    """None where the C library, the kernel or a filter of system calls does not have it."""
    try:
        statx = ctypes.CDLL(None, use_errno=True).statx
    except (AttributeError, OSError):
        return None

    def look(path: str) -> Identity:
        found = _Statx()
        if statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_INO, found):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        inode, major, minor = _FOUND.unpack_from(found)
        return os.makedev(major, minor), inode

    try:
        return look if look("/") == _by_stat("/") else None
    except OSError:  # ENOSYS, EPERM, or whatever else a filter answers
        return None


_look = _by_statx() or _by_stat
