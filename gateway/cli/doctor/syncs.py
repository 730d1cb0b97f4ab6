"""Measures how long a disk takes to make one reading durable, as the journal does it.

Small records are appended to a file that was filled with zeros before, each with a call of
fdatasync. The file is removed on every way out, Ctrl-C and a polite kill included, and what a
kill -9 has left is removed the next time. It is not unlinked while it is measured: some file
systems know that such a file need not be durable.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from types import FrameType

SYNCS_MIN = 10
SYNCS_DEFAULT = 100
SYNCS_MAX = 100_000  # a file of 17 MB
RECORD_BYTES = 170  # a reading of 100 bytes in the journal
PAGE_BYTES = 4096

_PREFIX, _SUFFIX = "doctor-", ".measuring"


@dataclass(frozen=True, slots=True)
class SyncTimes:
    count: int
    p50_s: float
    p99_s: float
    worst_s: float


def measure(folder: Path, count: int, on_each: Callable[[int], None]) -> SyncTimes:
    """Raises OSError. `on_each` hears how many are done."""
    _remove_left_over(folder)
    path = folder / f"{_PREFIX}{os.getpid()}{_SUFFIX}"
    with sigterm_as_interrupt():
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                seconds = _seconds(file, count, on_each)
            finally:
                os.close(file)
        finally:
            path.unlink(missing_ok=True)
    return summary(seconds)


def summary(seconds: list[float]) -> SyncTimes:
    ordered = sorted(seconds)
    p50, p99 = (ordered[ceil(share * len(ordered)) - 1] for share in (0.5, 0.99))
    return SyncTimes(len(ordered), p50, p99, ordered[-1])


def _seconds(file: int, count: int, on_each: Callable[[int], None]) -> list[float]:
    pages = ceil(count * RECORD_BYTES / PAGE_BYTES)
    for page in range(pages):
        _write(file, bytes(PAGE_BYTES), page * PAGE_BYTES)
    os.fsync(file)
    found = []
    for number in range(count):
        record = os.urandom(RECORD_BYTES)
        start = time.perf_counter()
        _write(file, record, number * RECORD_BYTES)
        os.fdatasync(file)
        found.append(time.perf_counter() - start)
        on_each(number + 1)
    return found


def _write(file: int, octets: bytes, offset: int) -> None:
    while octets:
        written = os.pwrite(file, octets, offset)
        octets, offset = octets[written:], offset + written


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _remove_left_over(folder: Path) -> None:
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        pid = path.name[len(_PREFIX) : -len(_SUFFIX)]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            with suppress(OSError):
                path.unlink()
