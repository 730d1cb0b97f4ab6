"""The calls to the file system on which acknowledgements rest, in one place, so that tests can
refuse each of them in turn.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path


class Disk:
    def write(self, path: Path, octets: bytes) -> None:
        """A new file, on the disk when this returns. After an error it may be there in part."""
        with path.open("xb", buffering=0) as file:
            view = memoryview(octets)
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())

    def replace(self, path: Path, data: bytes) -> None:
        """The file as it was or as it is to be, never in part; on the disk when this returns."""
        temporary = path.with_suffix(".tmp")
        temporary.unlink(missing_ok=True)
        self.write(temporary, data)
        self.rename(temporary, path)
        self.sync_folder(path.parent)

    def rename(self, path: Path, to: Path) -> None:
        path.rename(to)

    def sync_folder(self, folder: Path) -> None:
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)

    def sync_file(self, path: Path) -> None:
        """One that somebody else has written."""
        _sync(path, os.O_RDONLY)

    def make_folder(self, folder: Path) -> None:
        """With those above it; each new one is on the disk when this returns."""
        if folder.is_dir():
            return
        if folder.exists():
            raise NotADirectoryError(errno.ENOTDIR, "it is a file, not a folder", str(folder))
        self.make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        self.sync_folder(folder.parent)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
