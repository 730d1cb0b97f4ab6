"""Runs a module of Python with a wall clock that somebody else may set while it runs.

    python -m hil.rig.shifted_clock FILE MODULE ARGUMENTS...

The file holds a signed number of 8 octets, big-endian: so many nanoseconds the clock is ahead.
`ShiftedClock` writes it. Only `time.time` and `time.time_ns` show it, as they do when NTP answers;
the monotonic clock goes on, as it does then.
"""

from __future__ import annotations

import mmap
import runpy
import struct
import sys
import time
from pathlib import Path

_OFFSET = struct.Struct(">q")


class ShiftedClock:
    def __init__(self, path: Path) -> None:
        path.write_bytes(_OFFSET.pack(0))
        self.path = path

    def jump(self, seconds: float) -> None:
        """From where it is."""
        with self.path.open("r+b") as file:
            (before,) = _OFFSET.unpack(file.read(_OFFSET.size))
            file.seek(0)
            file.write(_OFFSET.pack(before + round(seconds * 1e9)))


def shift(path: Path) -> None:
    with path.open("rb") as file:
        offset = mmap.mmap(file.fileno(), _OFFSET.size, access=mmap.ACCESS_READ)
    time_ns = time.time_ns

    def shifted_ns() -> int:
        ahead: int = _OFFSET.unpack(offset[:])[0]
        return time_ns() + ahead

    time.time_ns = shifted_ns
    time.time = lambda: shifted_ns() / 1e9


def main() -> None:
    _, path, module, *arguments = sys.argv
    shift(Path(path))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
