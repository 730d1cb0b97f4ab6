"""The seam between the journal and the file system: every call it makes goes through `Files`.

That is what lets the simulator put a file system of its own underneath, which tears, forgets,
fails and stops at any call. Positions are explicit, so that no hidden state exists.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """Every method may raise OSError."""

    def make_folder(self, folder: Path) -> None:
        """With its parents, for its owner alone; no error if it is there."""

    def names(self, folder: Path) -> list[str]:
        """In no order."""

    def open(self, path: Path, *, create: bool = False) -> int:
        """For reading and writing. With `create` it must not exist yet."""

    def size(self, file: int) -> int: ...

    def read(self, file: int, size: int, offset: int) -> bytes:
        """May be short; empty at the end."""

    def write(self, file: int, octets: bytes, offset: int) -> int:
        """How many octets were written, which may be fewer."""

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

    def size(self, file: int) -> int:
        return os.fstat(file).st_size

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
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)
