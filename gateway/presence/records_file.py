"""What presence remembers of each device over restarts: its last values, and when it visits.

What the loss of the file does is that values are unknown until they come again. A gateway that is
killed loses what came in the last beat of the publisher; a machine that loses power, what its
kernel had not written yet.

How it is written: `LineFile`. A batch waits until those before it are paid for at `BYTES_PER_S`: SD
cards wear out.

Limits: `BYTES_MAX`, or twice what counts of it if that is more: then the file is written again,
with the last line of each key alone; a start does so as well. A line of more than `LINE_BYTES_MAX`
is not written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gateway.presence.line_file import LineFile, at_once, log, written_again

FILE = "announced.values.jsonl"
BYTES_MAX = 16 << 20
BYTES_PER_S = 16 << 10
LINE_BYTES_MAX = 256 << 10
SEPARATOR = "\t"  # JSON escapes it, so it is in no key and in no row


class RecordsFile(LineFile):
    def __init__(
        self,
        folder: Path,
        begin_work: Callable[[Callable[[], None]], None] = at_once,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(folder / FILE, begin_work, now)
        self._bytes_max = BYTES_MAX

    def load(self) -> dict[str, str]:
        """Rows by key."""
        try:
            rows = _read(self._path)
            self._bytes = written_again(self._path, map(_line, rows.items()))
        except FileNotFoundError:
            return {}  # the first start
        except OSError as error:
            self._fail(error)
            return {}
        return rows

    def put(self, key: str, row: str) -> None:
        """An empty row: there is none any more."""
        if len(row) <= LINE_BYTES_MAX:
            self._lines[key] = _line((key, row))

    def _work(self, text: str) -> Callable[[], int]:
        self._next_at = self._now() + len(text) / BYTES_PER_S
        is_large = self._bytes + len(text) > self._bytes_max
        return partial(self._append_and_write_again if is_large else self._append, text)

    def _append_and_write_again(self, text: str) -> int:
        """In the thread."""
        self._append(text)
        return written_again(self._path, map(_line, _read(self._path).items()))

    def _written(self, size: int) -> None:
        if size < self._bytes:  # it was written again
            self._bytes_max = max(BYTES_MAX, 2 * size)
        super()._written(size)

    def _log(self, reason: str | None) -> None:
        log.warning(
            "%s cannot be used (%s): last values are unknown after a restart until they come again",
            self._path,
            reason,
        )


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


def _line(item: tuple[str, str]) -> str:
    key, row = item
    return f"{key}{SEPARATOR}{row}\n"
