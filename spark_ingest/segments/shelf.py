"""The segments of one collector: a folder of numbered files that never change.

    <lake>/segments/<collector>/0000000042.parquet

Rule 1: a segment appears under its name whole and durable, or not at all: written to a temporary
        file, fsync, rename, fsync of the folder. Only then may its messages be acknowledged.
Rule 2: numbers have no holes, begin at 0 and are never used twice. The next one is that behind the
        highest there is; so the newest must stay when old segments are removed.
Rule 3: one process has the folder at a time (flock). Two would use the same numbers.
Rule 4: what a previous run left half done is removed at the start. It was never acknowledged.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

from spark_ingest.segments.disk import Disk

SEGMENTS = "segments"
LOCK = ".lock"
TEMPORARY_SUFFIX = ".tmp"
NUMBER_MAX = 10**10 - 1  # one a second lasts three centuries

_SEGMENT = re.compile(r"([0-9]{10})\.parquet")


class TakenError(Exception):
    """Another process has this folder."""


def collectors_in(lake: Path) -> list[str]:
    try:
        found = [each.name for each in (lake / SEGMENTS).iterdir() if each.is_dir()]
    except FileNotFoundError:
        return []
    return sorted(name for name in found if not name.startswith((".", "_")))


def segment_path(lake: Path, collector: str, number: int) -> Path:
    return lake / SEGMENTS / collector / f"{number:010d}.parquet"


def segment_numbers(lake: Path, collector: str) -> list[int]:
    """In rising order."""
    folder = lake / SEGMENTS / collector
    found = (_SEGMENT.fullmatch(each.name) for each in folder.iterdir())
    return sorted(int(each[1]) for each in found if each is not None)


class Shelf:
    """As a context manager it has the folder on entry, and gives it back on exit."""

    def __init__(self, lake: Path, collector: str, disk: Disk | None = None) -> None:
        self.collector = collector
        self.folder = lake / SEGMENTS / collector
        self.next_number = 0
        self._lake = lake
        self._disk = disk or Disk()
        self._lock: int | None = None

    def __enter__(self) -> Shelf:
        """Raises TakenError, and OSError."""
        self._disk.make_folder(self.folder)
        self._take()
        for left in self.folder.glob(f"*{TEMPORARY_SUFFIX}"):
            left.unlink()
        numbers = segment_numbers(self._lake, self.collector)
        self.next_number = numbers[-1] + 1 if numbers else 0
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def newest_first(self) -> Iterator[Path]:
        for number in reversed(segment_numbers(self._lake, self.collector)):
            yield segment_path(self._lake, self.collector, number)

    def place(self, octets: bytes) -> Path:
        """Rule 1. After an OSError nothing is promised, and the next try is another file.

        If only the last step fails, the segment is there and will be there again under the next
        number: its readings twice, with the same identities, rather than perhaps not at all.
        """
        assert self._lock is not None
        assert self.next_number <= NUMBER_MAX
        path = segment_path(self._lake, self.collector, self.next_number)
        temporary = path.with_suffix(TEMPORARY_SUFFIX)
        try:
            self._disk.write(temporary, octets)
            self._disk.rename(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self.next_number += 1
        self._disk.sync_folder(self.folder)
        return path

    def _take(self) -> None:
        lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise TakenError(
                f"another collector called {self.collector!r} is at work in {self.folder}; give "
                "each its own name, such as --set collector.name=second"
            ) from None
        except OSError:
            os.close(lock)
            raise
        self._lock = lock
