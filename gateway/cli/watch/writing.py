"""Puts lines on standard output in a thread of its own, which may be held up there.

A terminal that is stopped, or a pipe that is not read, holds up a write for as long as it likes.
The session with the broker goes on meanwhile: what comes waits here, up to WAITING_MAX lines and
WAITING_BYTES_MAX bytes, and what comes beyond is skipped and counted.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

from gateway.host.limits import start_thread

WAITING_MAX = 10_000
WAITING_BYTES_MAX = 16 << 20


class Writer:
    """`on_end` is called from the thread, once, when nothing can be written any more."""

    def __init__(self, descriptor: int, on_end: Callable[[OSError], None]) -> None:
        self.skipped = 0  # since `take_skipped`
        self._descriptor = descriptor
        self._on_end = on_end
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._is_closed = self._is_done = False

    def start(self) -> None:
        start_thread(self._run, "output")

    def put(self, line: bytes) -> bool:
        """Whether it is written; else it is counted as skipped."""
        with self._changed:
            is_full = len(self._waiting) >= WAITING_MAX
            if is_full or self._waiting_bytes + len(line) > WAITING_BYTES_MAX:
                self.skipped += 1
                return False
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            self._changed.notify_all()
            return True

    def take_skipped(self) -> int:
        """How many since the last call, as soon as there is room again."""
        with self._changed:
            if not self.skipped or len(self._waiting) > WAITING_MAX // 2:
                return 0
            skipped, self.skipped = self.skipped, 0
            return skipped

    def close(self, within_s: float | None) -> None:
        """Writes what waits, as far as that can be done in time."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_done, within_s)

    def _run(self) -> None:
        try:
            while (line := self._next()) is not None:
                while line:
                    line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            self._on_end(error)
        with self._changed:
            self._is_done = True
            self._changed.notify_all()

    def _next(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            if not self._waiting:
                return None
            line = self._waiting.popleft()
            self._waiting_bytes -= len(line)
            return line
