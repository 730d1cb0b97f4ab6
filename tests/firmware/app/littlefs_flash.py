"""LittleFS itself, as MicroPython mounts it, on a flash whose power goes at any block operation.

The flash is NOR: erasing sets a block's bits, writing clears bits. An operation that the power cuts
has done a part of its work, and the octets behind that part are anything between what they were and
what they were to be. Nothing lands after it.

Limits: as many blocks as it is told (ENOSPC). Octets do not fade, blocks do not wear out.
"""

from __future__ import annotations

import errno
import io
import random
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from littlefs import LFSConfig, LFSFilesystem, LittleFSError, UserContext, lfs

from tests.firmware.app.fragile_flash import NEVER, FragileFlash, PowerCutError

BLOCK_OCTETS = 4096
BLOCKS = 64
ERASED = 0xFF
# As MicroPython's VfsLfs2 has them when it is told nothing, which is how ESP32 mounts its flash.
LIKE_MICROPYTHON = {
    "read_size": 32,
    "prog_size": 32,
    "cache_size": 128,
    "lookahead_size": 32,
    "block_cycles": 100,
}
WEAK_OCTETS_MAX = 8
FAILED = -errno.EIO
MODES = {
    mode: sum(lfs.LFSFileFlag[flag] for flag in flags.split())
    for mode, flags in {
        "rb": "rdonly",
        "wb": "wronly creat trunc",
        "ab": "wronly creat append",
    }.items()
}

Args = ParamSpec("Args")
Result = TypeVar("Result")


class NorFlash(UserContext):
    """What is behind the file system; one life of it, because LittleFS cannot be stopped midway."""

    def __init__(self, octets: bytearray, dice: random.Random) -> None:
        super().__init__(buffer=octets)
        self.operations = 0
        self.cut_at = NEVER
        self.is_off = False
        self._dice = dice

    def prog(self, cfg: LFSConfig, block: int, off: int, data: bytes) -> int:
        at = block * BLOCK_OCTETS + off
        old = self.buffer[at : at + len(data)]
        new = int.from_bytes(old, "big") & int.from_bytes(data, "big")
        return self._land(at, bytes(old), new.to_bytes(len(data), "big"))

    def erase(self, cfg: LFSConfig, block: int) -> int:
        at = block * BLOCK_OCTETS
        old = bytes(self.buffer[at : at + BLOCK_OCTETS])
        return self._land(at, old, bytes([ERASED]) * BLOCK_OCTETS)

    def _land(self, at: int, old: bytes, new: bytes) -> int:
        if self.is_off:
            return FAILED
        self.is_off = self.operations == self.cut_at
        if self.is_off:
            new = self._torn(old, new)
        else:
            self.operations += 1
        self.buffer[at : at + len(new)] = new
        return FAILED if self.is_off else 0

    def _torn(self, old: bytes, new: bytes) -> bytes:
        done = self._dice.randrange(len(new) + 1)
        weak = min(self._dice.randrange(WEAK_OCTETS_MAX + 1), len(new) - done)
        between = bytes(
            was ^ ((was ^ to_be) & self._dice.randrange(256))
            for was, to_be in zip(old[done : done + weak], new[done : done + weak], strict=True)
        )
        return new[:done] + between + old[done + weak :]


class LittleFsFlash(FragileFlash):
    def __init__(self, *, blocks: int = BLOCKS, seed: int = 1) -> None:
        super().__init__(seed)
        self._octets = bytearray([ERASED]) * (blocks * BLOCK_OCTETS)
        self._blocks = blocks
        self._flash, self._config = self._wired()
        lfs.format(LFSFilesystem(), self._config)
        self.restart()

    # What the application calls

    def open(self, path: str, mode: str) -> _File:
        return _File(self, self.call(lfs.file_open, path, MODES[mode]))

    def listdir(self, folder: str) -> list[str]:
        return [each.name for each in self._entries(folder)]

    def mkdir(self, folder: str) -> None:
        self.call(lfs.mkdir, folder)

    def remove(self, path: str) -> None:
        self.call(lfs.remove, path)

    def rename(self, path: str, to: str) -> None:
        self.call(lfs.rename, path, to)

    # The power

    def restart(self) -> None:
        super().restart()
        self._flash, self._config = self._wired()
        self._files = LFSFilesystem()
        lfs.mount(self._files, self._config)

    def _wired(self) -> tuple[NorFlash, LFSConfig]:
        flash = NorFlash(self._octets, self.dice)
        return flash, LFSConfig(
            flash, block_size=BLOCK_OCTETS, block_count=self._blocks, **LIKE_MICROPYTHON
        )

    def call(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Raises OSError as MicroPython does, and PowerCutError whatever LittleFS made of it."""
        if self._flash.is_off:
            raise PowerCutError
        self._flash.operations, self._flash.cut_at = self.operations, self.cut_at
        try:
            return function(self._files, *arguments)
        except LittleFSError as error:
            raise OSError(-error.code, str(error)) from None
        finally:
            self.operations = self._flash.operations
            if self._flash.is_off:
                raise PowerCutError

    # For tests

    def contents(self, folder: str) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for each in self._entries(folder):
            path = f"{folder.rstrip('/')}/{each.name}"
            if each.type == lfs.LFSStat.TYPE_DIR:
                inside = self.contents(path)
                found |= {f"{each.name}/{name}": inside[name] for name in inside}
            else:
                with self.open(path, "rb") as file:
                    found[each.name] = file.read()
        return found

    def _entries(self, folder: str) -> list[lfs.LFSStat]:
        opened = self.call(lfs.dir_open, folder)
        entries = []
        while (entry := self.call(lfs.dir_read, opened)) is not None:
            if entry.name not in (".", ".."):
                entries.append(entry)
        self.call(lfs.dir_close, opened)
        return entries


class _File:
    def __init__(self, flash: LittleFsFlash, opened: lfs.LFSFile) -> None:
        self._flash, self._opened = flash, opened
        self._is_open = True

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            size = self._flash.call(lfs.file_size, self._opened)
        return self._flash.call(lfs.file_read, self._opened, size)

    def readinto(self, buffer: bytearray) -> int:
        octets = self.read(len(buffer))
        buffer[: len(octets)] = octets
        return len(octets)

    def seek(self, at: int, whence: int = io.SEEK_SET) -> int:
        return self._flash.call(lfs.file_seek, self._opened, at, whence)

    def write(self, octets: bytes) -> int:
        return self._flash.call(lfs.file_write, self._opened, bytes(octets))

    def flush(self) -> None:
        self._flash.call(lfs.file_sync, self._opened)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._flash.call(lfs.file_close, self._opened)

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
