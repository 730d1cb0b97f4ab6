"""Files as FAT keeps them, whose power goes at any operation.

Each write lands at once, the one that the power cuts in part, with rubbish behind it; `rename` over
another file takes that one away first. What LittleFS does instead is seen on LittleFS itself
(littlefs_flash.py): it tears no files, so that this one is the harder test of what reads them.

Limits: as many octets as it is told (ENOSPC); folders have one level.
"""

from __future__ import annotations

import errno
import io
from types import TracebackType
from typing import Self

from tests.firmware.app.fragile_flash import FragileFlash, PowerCutError


class SimulatedFlash(FragileFlash):
    def __init__(self, *, octets_max: int = 10**6, seed: int = 1) -> None:
        super().__init__(seed)
        self.files: dict[str, bytes] = {}
        self.folders = {"/"}
        self.octets_max = octets_max

    # What the application calls

    def open(self, path: str, mode: str) -> _File:
        if "r" in mode and path not in self.files:
            raise OSError(errno.ENOENT, path)
        if path.rpartition("/")[0] not in {folder.rstrip("/") for folder in self.folders}:
            raise OSError(errno.ENOENT, path)
        if "w" in mode:
            self.step()
            self.files[path] = b""
        return _File(self, path, mode)

    def listdir(self, folder: str) -> list[str]:
        inside = folder.rstrip("/") + "/"
        return [path[len(inside) :] for path in self.files if path.startswith(inside)]

    def mkdir(self, folder: str) -> None:
        if folder in self.folders:
            raise OSError(errno.EEXIST, folder)
        self.step()
        self.folders.add(folder)

    def remove(self, path: str) -> None:
        if path not in self.files:
            raise OSError(errno.ENOENT, path)
        self.step()
        del self.files[path]

    def rename(self, path: str, to: str) -> None:
        if path not in self.files:
            raise OSError(errno.ENOENT, path)
        if to in self.files:
            self.step()
            del self.files[to]
        self.step()
        self.files[to] = self.files.pop(path)

    # For tests

    def contents(self, folder: str) -> dict[str, bytes]:
        start = folder.rstrip("/") + "/"
        return {
            path.removeprefix(start): content
            for path, content in self.files.items()
            if path.startswith(start)
        }

    # The power

    def step(self) -> None:
        if self.operations == self.cut_at:
            raise PowerCutError
        self.operations += 1

    def land(self, path: str, content: bytes, *, grown: int) -> None:
        """The file has this content now; `grown` bytes of it are new."""
        others = sum(len(each) for name, each in self.files.items() if name != path)
        if others + len(content) > self.octets_max:
            raise OSError(errno.ENOSPC, path)
        if self.operations == self.cut_at:
            part = self.dice.randrange(grown + 1)
            rubbish = self.dice.randbytes(self.dice.randrange(grown - part + 1))
            self.files[path] = content[: len(content) - grown + part] + rubbish
        self.step()
        self.files[path] = content


class _File:
    def __init__(self, flash: SimulatedFlash, path: str, mode: str) -> None:
        self._flash, self._path = flash, path
        self._writes = mode != "rb"
        self._content = io.BytesIO(b"" if "w" in mode else flash.files.get(path, b""))
        if "a" in mode:
            self._content.seek(0, 2)
        self._unwritten = 0

    def read(self, size: int = -1) -> bytes:
        return self._content.read(size)

    def readinto(self, buffer: bytearray) -> int:
        return self._content.readinto(buffer)

    def seek(self, at: int, whence: int = 0) -> int:
        return self._content.seek(at, whence)

    def write(self, octets: bytes) -> int:
        written = self._content.write(octets)
        self._unwritten += written
        self._land()
        return written

    def flush(self) -> None:
        self._land()

    def close(self) -> None:
        if self._writes:
            self._land()
            self._writes = False

    def _land(self) -> None:
        self._flash.land(self._path, self._content.getvalue(), grown=self._unwritten)
        self._unwritten = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, PowerCutError):
            self.close()
