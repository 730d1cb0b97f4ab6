"""What the system knows of this process, under the names that every Prometheus exporter has.

From /proc; what it does not say is left out.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_SELF = Path("/proc/self")
# Of /proc/self/stat, behind the name of the program: see proc(5).
_USER_TICKS, _SYSTEM_TICKS, _START_TICKS, _VIRTUAL_BYTES, _RESIDENT_PAGES = 11, 12, 19, 20, 21


def process_numbers() -> dict[str, float]:
    found: dict[str, float] = {}
    for reader in (_stat, _descriptors):
        with suppress(OSError, ValueError, IndexError):
            found.update(reader())
    return found


def _stat() -> Iterator[tuple[str, float]]:
    fields = (_SELF / "stat").read_text().rpartition(") ")[2].split()
    per_s = os.sysconf("SC_CLK_TCK")
    yield "process_virtual_memory_bytes", float(fields[_VIRTUAL_BYTES])
    pages = float(fields[_RESIDENT_PAGES])
    yield "process_resident_memory_bytes", pages * resource.getpagesize()
    ticks = float(fields[_USER_TICKS]) + float(fields[_SYSTEM_TICKS])
    yield "process_cpu_seconds_total", ticks / per_s
    yield "process_start_time_seconds", _booted_at() + float(fields[_START_TICKS]) / per_s


def _booted_at() -> float:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    raise ValueError("no time of boot")


def _descriptors() -> Iterator[tuple[str, float]]:
    yield "process_max_fds", float(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    yield "process_open_fds", float(sum(1 for _ in (_SELF / "fd").iterdir()))
