"""What presence remembers of each device over restarts: its last values, and when it visits.

One line for each change, under a key; the last one of a key counts. Nothing waits for the file and
it is never synced: what its loss does is that values are unknown until they come again. A gateway
that is killed loses what came in the last beat of the publisher; a machine that loses power, what
its kernel had not written yet.

It is written in a thread, one batch at a time, because the disk may hang. Meanwhile, and after a
failure until a write succeeds (`RETRY_S`), lines wait in memory, the last one of each key. A batch
waits until those before it are paid for at `BYTES_PER_S`: SD cards wear out.

Limits: `BYTES_MAX`, or twice what counts of it if that is more: then the file is written again,
with the last line of each key alone; a start does so as well. A line of more than `LINE_BYTES_MAX`
is not written.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gateway.presence.retained_ledger import at_once

log = logging.getLogger("tidegate.presence")

FILE = "announced.values.jsonl"
BYTES_MAX = 16 << 20
BYTES_PER_S = 16 << 10
LINE_BYTES_MAX = 256 << 10
RETRY_S = 10.0
SEPARATOR = "\t"  # JSON escapes it, so it is in no key and in no row


class RecordsFile:
    """`begin_work`: where the file is written."""

    def __init__(
        self,
        folder: Path,
        begin_work: Callable[[Callable[[], None]], None] = at_once,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = folder / FILE
        self._begin_work = begin_work
        self._now = now
        self._lines: dict[str, str] = {}  # by key
        self._writing: dict[str, str] | None = None
        self._outcome: list[OSError | int] = []  # from the thread; an int: bytes of the file
        self._next_at = 0.0
        self._bytes = 0
        self._bytes_max = BYTES_MAX
        self._has_failed = False

    def load(self) -> dict[str, str]:
        """Rows by key."""
        try:
            rows = _read(self._path)
            self._bytes = _write_again(self._path, rows)
        except FileNotFoundError:
            return {}  # the first start
        except OSError as error:
            self._fail(error)
            return {}
        return rows

    def put(self, key: str, row: str) -> None:
        """An empty row: there is none any more."""
        if len(row) <= LINE_BYTES_MAX:
            self._lines[key] = row

    @property
    def is_ready(self) -> bool:
        """Whether what is put now would be written now."""
        return self._now() >= self._next_at

    def flush(self, *, is_end: bool = False) -> bool:
        """Begin to write what waits, if it may be written now; whether something is on its way."""
        self._take_outcome()
        if self._writing is None and self._lines and (is_end or self.is_ready):
            self._write()
            self._take_outcome()
        return self._writing is not None

    def _write(self) -> None:
        self._writing, self._lines = self._lines, {}
        text = "".join(map(_line, self._writing.items()))
        # After a failure the last line may be half of one.
        text = f"\n{text}" if self._has_failed else text
        self._next_at = self._now() + len(text) / BYTES_PER_S
        again = self._bytes + len(text) > self._bytes_max
        try:
            self._begin_work(partial(self._append, text, again))
        except RuntimeError:
            self._outcome.append(OSError(errno.EAGAIN, "the limit on threads is reached"))

    def _append(self, text: str, again: bool) -> None:
        """In the thread."""
        try:
            with open(self._path, "a", encoding="utf-8", opener=_private) as file:
                file.write(text)
                size = file.tell()
            if again:
                size = _write_again(self._path, _read(self._path))
        except OSError as error:
            self._outcome.append(error)
        else:
            self._outcome.append(size)

    def _take_outcome(self) -> None:
        if self._writing is None or not self._outcome:
            return
        lines, self._writing = self._writing, None
        outcome = self._outcome.pop()
        if isinstance(outcome, OSError):
            self._lines = lines | self._lines
            self._next_at = self._now() + RETRY_S
            self._fail(outcome)
            return
        if outcome < self._bytes:  # it was written again
            self._bytes_max = max(BYTES_MAX, 2 * outcome)
        self._bytes = outcome
        if self._has_failed:
            self._has_failed = False
            log.info("%s can be used again", self._path)

    def _fail(self, error: OSError) -> None:
        if not self._has_failed:
            log.warning(
                "%s cannot be used (%s): last values are unknown after a restart until they come "
                "again",
                self._path,
                error.strerror,
            )
        self._has_failed = True


def _read(path: Path) -> dict[str, str]:
    rows: dict[str, str] = {}
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for line in file:
            key, separator, row = line.rstrip("\n").partition(SEPARATOR)
            if not separator or not line.endswith("\n"):  # torn by a power cut
                continue
            rows.pop(key, None)
            if row:
                rows[key] = row
    return rows


def _write_again(path: Path, rows: dict[str, str]) -> int:
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with open(new, "x", encoding="utf-8", opener=_private) as file:
        file.writelines(map(_line, rows.items()))
        size = file.tell()
    new.replace(path)
    return size


def _line(item: tuple[str, str]) -> str:
    key, row = item
    return f"{key}{SEPARATOR}{row}\n"


def _private(path: str, flags: int) -> int:
    """For `open`: for our user alone."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
