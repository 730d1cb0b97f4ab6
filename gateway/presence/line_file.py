"""A file of lines that presence appends to: one for each change, under a key; the last one counts.

Nothing waits for it, and it is never synced. It is written in a thread, one batch at a time,
because the disk may hang. Meanwhile, and after a failure until a write succeeds (`RETRY_S`), lines
wait in memory, the last one of each key. A disk that is full or fails is logged once, and otherwise
does no harm.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread

log = logging.getLogger("tidegate.presence")

RETRY_S = 10.0


def at_once(work: Callable[[], None]) -> None:
    work()


def in_thread(work: Callable[[], None]) -> None:
    """Raises RuntimeError where the limit on threads is reached."""
    Thread(target=work, name="announced", daemon=True).start()


class LineFile:
    """`begin_work`: where the file is written. Subclasses say what a line is, and how much there
    may be of them.
    """

    def __init__(
        self,
        path: Path,
        begin_work: Callable[[Callable[[], None]], None] = at_once,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._begin_work = begin_work
        self._now = now
        self._lines: dict[str, str] = {}  # by key
        self._writing: dict[str, str] | None = None
        self._begun_at = 0.0
        self._next_at = 0.0
        self._bytes = 0  # of the file
        # From the thread: what became of it; an int: bytes of the file.
        self._outcome: list[OSError | int] = []
        self._problem: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether what waits may be written now."""
        return self._now() >= self._next_at

    def flush(self, *, is_end: bool = False) -> bool:
        """Begin to write what waits, if it may be written now; whether something is on its way."""
        self._take_outcome()
        if self._writing is None and self._lines and (is_end or self.is_ready):
            self._write()
            self._take_outcome()
        return self._writing is not None

    def _write(self) -> None:
        lines, self._lines = self._lines, {}
        # After a failure the last line may be half of one.
        text = ("\n" if self._problem is not None else "") + "".join(lines.values())
        work = self._work(text)
        if work is None:
            return
        self._writing, self._begun_at = lines, self._now()
        try:
            self._begin_work(partial(self._done, work))
        except RuntimeError:
            self._outcome.append(OSError(errno.EAGAIN, "the limit on threads is reached"))

    def _work(self, text: str) -> Callable[[], int] | None:
        """How the text is written, with the size of the file then; None if it may not be."""
        raise NotImplementedError

    def _append(self, text: str) -> int:
        """In the thread."""
        with open(self._path, "a", encoding="utf-8", opener=_private) as file:
            file.write(text)
            return file.tell()

    def _done(self, work: Callable[[], int]) -> None:
        """In the thread."""
        try:
            self._outcome.append(work())
        except OSError as error:
            self._outcome.append(error)

    def _take_outcome(self) -> None:
        if self._writing is None or not self._outcome:
            return
        lines, self._writing = self._writing, None
        outcome = self._outcome.pop()
        if isinstance(outcome, OSError):
            for key, line in self._lines.items():
                lines.pop(key, None)
                lines[key] = line
            self._lines = lines
            self._next_at = self._now() + RETRY_S
            self._fail(outcome)
            return
        self._written(outcome)
        if self._problem is not None:
            self._problem = None
            log.info("%s can be used again", self._path)

    def _written(self, size: int) -> None:
        """A batch is in the file, which has so many bytes now."""
        self._bytes = size

    def _fail(self, error: OSError) -> None:
        is_first, self._problem = self._problem is None, f"{self._path}: {error.strerror}"
        if is_first:
            self._log(error.strerror)

    def _log(self, reason: str | None) -> None:
        """That the file cannot be used, and what follows."""
        raise NotImplementedError


def written_again(path: Path, lines: Iterable[str]) -> int:
    """The file with these lines alone; how many bytes it has. Raises OSError."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with open(new, "x", encoding="utf-8", opener=_private) as file:
        file.writelines(lines)
        size = file.tell()
    new.replace(path)
    return size


def _private(path: str, flags: int) -> int:
    """For `open`: for our user alone, also where an older version has made the file."""
    file = os.open(path, flags | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # of another user
        if os.fstat(file).st_mode & 0o077:
            os.fchmod(file, 0o600)
    return file
