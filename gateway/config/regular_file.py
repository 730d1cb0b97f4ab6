"""A file that the configuration consists of or names: a regular file, read up to a stated size.

To open a named pipe without a writer hangs, and a device may begin to work when it is opened. So
neither is opened. /dev/null is an empty file, as everywhere.

A disk that hangs is not seen beforehand. A caller that reads in a thread with a time limit
(side_thread) finds the path that it hangs on by `last_opened`: only one configuration is read at a
time.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_NULL_DEVICE = os.makedev(1, 3)

_last_opened: Path | None = None


def opening(path: Path) -> None:
    """To be called before a system call with this path."""
    global _last_opened
    _last_opened = path


def last_opened() -> Path | None:
    """The path that was opened last, by any thread."""
    return _last_opened


def read_regular(path: Path, bytes_max: int) -> bytes:
    """Its first `bytes_max` bytes. Raises OSError, with the reason in `strerror`."""
    opening(path)
    _refuse_other(path.stat(), path)
    # Not blocking and no terminal of ours: it may have become another file in between.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    with os.fdopen(os.open(path, flags), "rb") as file:
        _refuse_other(os.fstat(file.fileno()), path)
        return file.read(bytes_max)


def _refuse_other(status: os.stat_result, path: Path) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == _NULL_DEVICE:
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    kind = next((name for is_kind, name in _KINDS if is_kind(status.st_mode)), "another kind")
    raise OSError(errno.EINVAL, f"it is {kind}, and only a regular file is read", path)
