"""The seam between the journal and the file system: every call it makes goes through `Files`.

That is what lets the simulator put a file system of its own underneath, which tears, forgets,
fails and stops at any call. Positions are explicit, so that no hidden state exists.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple, Protocol

from gateway.storage.journal.file_identity import Identity, file_identity


class Entry(NamedTuple):
    """What a path or a descriptor leads to. `allocated_bytes`: less than the size if it has holes,
    or where the file system stores zeros in less.
    """

    device: int
    inode: int
    is_file: bool
    size: int
    allocated_bytes: int

    @property
    def identity(self) -> Identity:
        return self.device, self.inode


class Files(Protocol):
    """Every method may raise OSError."""

    def make_folder(self, folder: Path) -> None:
        """With its parents, for its owner alone; no error if it is there."""

    def names(self, folder: Path) -> list[str]:
        """In no order."""

    def open(self, path: Path, *, create: bool = False) -> int:
        """For reading and writing. With `create` it must not exist yet."""

    def open_to_read(self, path: Path) -> int:
        """Also where nothing can be written."""

    def entry(self, path: Path) -> Entry | None:
        """None if nothing is there. Links are followed."""

    def entry_of(self, file: int) -> Entry: ...

    def identity(self, path: Path) -> Identity | None:
        """As `entry`, but without what makes the next sync dearer (file_identity.py)."""

    def open_folder(self, folder: Path) -> int:
        """To know it again, by `entry_of`."""

    def read(self, file: int, size: int, offset: int) -> bytes:
        """May be short; empty at the end."""

    def write(self, file: int, octets: bytes, offset: int) -> int:
        """How many bytes were written, which may be fewer."""

    def sync_data(self, file: int) -> None: ...

    def sync(self, file: int) -> None: ...

    def truncate(self, file: int, size: int) -> None: ...

    def close(self, file: int) -> None: ...

    def rename(self, old: Path, new: Path) -> None: ...

    def remove(self, path: Path) -> None: ...

    def sync_folder(self, folder: Path) -> None: ...


class OsFiles:
    """The real one."""

    def make_folder(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def names(self, folder: Path) -> list[str]:
        return os.listdir(folder)  # noqa: PTH208 - names, not paths

    def open(self, path: Path, *, create: bool = False) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC
        return os.open(path, flags | os.O_CREAT | os.O_EXCL if create else flags, 0o600)

    def open_to_read(self, path: Path) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def entry(self, path: Path) -> Entry | None:
        try:
            return _entry(path.stat())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def entry_of(self, file: int) -> Entry:
        return _entry(os.fstat(file))

    def identity(self, path: Path) -> Identity | None:
        return file_identity(path)

    def open_folder(self, folder: Path) -> int:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def read(self, file: int, size: int, offset: int) -> bytes:
        return os.pread(file, size, offset)

    def write(self, file: int, octets: bytes, offset: int) -> int:
        return os.pwrite(file, octets, offset)

    def sync_data(self, file: int) -> None:
        os.fdatasync(file)

    def sync(self, file: int) -> None:
        os.fsync(file)

    def truncate(self, file: int, size: int) -> None:
        os.ftruncate(file, size)

    def close(self, file: int) -> None:
        os.close(file)

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)

    def remove(self, path: Path) -> None:
        path.unlink()

    def sync_folder(self, folder: Path) -> None:
        file = self.open_folder(folder)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def _entry(status: os.stat_result) -> Entry:
    is_file = stat.S_ISREG(status.st_mode)
    allocated_bytes = status.st_blocks * 512  # in these units whatever the file system's are
    return Entry(
        device=status.st_dev,
        inode=status.st_ino,
        is_file=is_file,
        size=status.st_size,
        allocated_bytes=allocated_bytes,
    )
