"""Runs a module of Python with a wall clock that another process may set while it runs.

    python -m hil.rig.shifted_clock FILE MODULE ARGUMENTS...

The file holds two signed numbers of 8 bytes, big-endian: so many nanoseconds the clock is ahead,
which `ShiftedClock` writes; and how often the program has come upon another such number. Only
`time.time` and `time.time_ns` show it, as they do when NTP answers; the monotonic clock goes on, as
it does then.
"""

from __future__ import annotations

import mmap
import runpy
import struct
import sys
import time
from pathlib import Path

SEEN_S_MAX, POLL_S = 5.0, 0.02
_NUMBER = struct.Struct(">q")
_FILE = struct.Struct(">qq")


class ShiftedClock:
    def __init__(self, path: Path) -> None:
        path.write_bytes(_FILE.pack(0, 0))
        self.path = path

    def jump(self, seconds: float) -> None:
        """From where it is."""
        with self.path.open("r+b") as file:
            (before,) = _NUMBER.unpack(file.read(_NUMBER.size))
            file.seek(0)
            file.write(_NUMBER.pack(before + round(seconds * 1e9)))

    def wait_until_seen(self, times: int) -> None:
        """Or until SEEN_S_MAX is over."""
        deadline = time.monotonic() + SEEN_S_MAX
        while self.times_seen < times and time.monotonic() < deadline:
            time.sleep(POLL_S)

    @property
    def times_seen(self) -> int:
        """Jumps that the program has seen, in all of its runs."""
        seen: int = _FILE.unpack(self.path.read_bytes())[1]
        return seen


def shift(path: Path) -> None:
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), _FILE.size)
    time_ns = time.time_ns
    before: int = _FILE.unpack(shared[:])[0]

    def shifted_ns() -> int:
        nonlocal before
        ahead: int
        ahead, seen = _FILE.unpack(shared[:])
        if ahead != before:
            before = ahead
            shared[_NUMBER.size :] = _NUMBER.pack(seen + 1)
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
