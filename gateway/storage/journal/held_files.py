"""Descriptors of the segments that were written or read last.

A descriptor outlasts what is done to the path: the owner changed by a copy, the file or its folder
removed. So what is to be read back soon is still read, and a process that has no descriptor left
needs no other.

Full: at `HELD_MAX` the one that was used longest ago is closed.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

from gateway.storage.journal.files import Files

HELD_MAX = 4


class HeldFiles:
    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        self._files = files
        self._held: dict[str, int] = {}  # by name, the one used last at the end

    def open(self, name: str) -> int:
        """Stays open here. Raises OSError."""
        file = self._held.pop(name, None)
        if file is None:
            file = self._open(self._folder / name)
        self.hold(name, file)
        return file

    def _open(self, path: Path) -> int:
        try:
            return self._files.open_to_read(path)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._held:
                raise
        self.close()
        return self._files.open_to_read(path)

    def hold(self, name: str, file: int) -> None:
        """Nothing more is written to it."""
        self._held[name] = file
        if len(self._held) > HELD_MAX:
            self.let_go(next(iter(self._held)))

    def let_go(self, name: str) -> None:
        file = self._held.pop(name, None)
        if file is not None:
            with suppress(OSError):
                self._files.close(file)

    def close(self) -> None:
        for name in list(self._held):
            self.let_go(name)
