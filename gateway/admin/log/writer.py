"""Writes the log to one file descriptor from a thread of its own: no caller waits.

A full pipe, a terminal stopped by Ctrl-S or a socket that nobody reads holds write(2) for as long
as it likes. That may hold this thread and nothing else.

- `put` never waits. Limit: LINES_MAX lines and BYTES_MAX bytes wait to be written. Full: the new
  line is lost and counted, and so are all that follow until the queue is half empty. Then one line,
  at the place of those that were lost, states how many they were and for how long.
- A write that fails (a full disk, a closed pipe) loses its lines in the same way. The line that
  states it goes before the next one that can be written.
- Lines that come in a burst are written together: the thread waits LINGER_S after the first one,
  because to wake it up for each line costs a burst of CONNECTs a quarter more.
- Lines stay whole and in order. A write takes at most WRITE_BYTES_MAX bytes of whole lines, which a
  pipe that several processes write to keeps together.
- O_NONBLOCK would do without a thread, but it belongs to the open file, which a terminal shares
  with the shell that started us; so the descriptor is left as it is.
- The descriptor is written, not `sys.stderr`: a thread that waits inside that one holds its lock,
  and an interpreter that cannot get it at its end aborts.
- The thread is a daemon: at the end of the process it holds nobody. Its owner gives what waits
  FLUSH_S to be written.

Without a thread (RLIMIT_NPROC) lines are written at once as far as poll(2) allows it, and are lost
otherwise. It is not tried again: without threads the journal cannot be opened, and the gateway ends
with the line that says so.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

# Half a minute of a busy gateway at the level debug; at info more than a day.
LINES_MAX = 8192
BYTES_MAX = 1 << 20
WRITE_BYTES_MAX = select.PIPE_BUF
FLUSH_S = 1.0
LINGER_S = 0.005  # what a kill of the process may cost of the log
# A card or a slow terminal holds a write for as long without anything being wrong.
BLOCKED_AFTER_S = 2.0

NOT_READ = "nobody reads it"

# How many lines were lost, within how many seconds, and why; returns the line that states it.
Notice = Callable[[int, float, str], str]


class LogWriter:
    def __init__(self, descriptor: int, encoding: str = "utf-8") -> None:
        self.lost_lines = 0
        self.error: str | None = None  # of the last write, None if it was done
        self.notice: Notice = _plain_notice
        self._descriptor = descriptor
        self._encoding = encoding
        # Reentrant, as what is collected while it is held may log.
        self._changed = threading.Condition(threading.RLock())
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._refused = 0  # lines lost behind those that wait; while there are any, all are
        self._refused_since = 0.0
        self._failed = 0  # lines lost before those that wait
        self._failed_since = 0.0
        self._write_began: float | None = None
        self._is_waiting = False  # the thread, for a line
        self._has_thread = self._start()

    # From those who log, in any thread

    def put(self, line: str) -> None:
        octets = f"{line}\n".encode(self._encoding, "backslashreplace")
        with self._changed:
            if not self._has_thread:
                self._lines.append(octets)
                self._write_without_thread()
            elif self._refused or self._is_full(len(octets)):
                if not self._refused:
                    self._refused_since = time.monotonic()
                self._refused += 1
                self.lost_lines += 1
            else:
                self._lines.append(octets)
                self._bytes += len(octets)
                if self._is_waiting:
                    self._is_waiting = False
                    self._changed.notify_all()

    def flush(self, within_s: float) -> bool:
        """Whether all is written, after waiting at most so long for it."""
        with self._changed:
            return self._changed.wait_for(self._is_idle, within_s)

    # From those who show

    @property
    def blocked_s(self) -> float | None:
        """For how long nothing could be written, or None."""
        began = self._write_began
        if began is None:
            return None
        blocked_s = time.monotonic() - began
        return blocked_s if blocked_s >= BLOCKED_AFTER_S else None

    # The thread

    def _start(self) -> bool:
        try:
            threading.Thread(target=self._work, name="log writer", daemon=True).start()
        except RuntimeError:
            return False
        return True

    def _work(self) -> None:
        while True:
            with self._changed:
                is_new = False
                while not self._lines and not self._refused:
                    self._is_waiting = is_new = True
                    self._changed.wait()
            if is_new:
                time.sleep(LINGER_S)
            with self._changed:
                octets, count = self._next()
                stated = self._failed
            problem = self._written(octets)
            with self._changed:
                self._note(problem, count, stated)
                self._changed.notify_all()

    def _next(self) -> tuple[bytes, int]:
        """What is written now, and how many lines that were waiting are in it."""
        now = time.monotonic()
        if self._refused and self._is_half_empty():
            stated = self.notice(self._refused, now - self._refused_since, NOT_READ)
            self._lines.append(f"{stated}\n".encode(self._encoding, "backslashreplace"))
            self._bytes += len(self._lines[-1])
            self._refused = 0
        parts: list[bytes] = []
        if self._failed:
            error = self.error or NOT_READ
            stated = self.notice(self._failed, now - self._failed_since, error)
            parts.append(f"{stated}\n".encode(self._encoding, "backslashreplace"))
        count, size = 0, sum(map(len, parts))
        while self._lines and (not count or size + len(self._lines[0]) <= WRITE_BYTES_MAX):
            parts.append(self._lines.popleft())
            count += 1
            size += len(parts[-1])
            self._bytes -= len(parts[-1])
        self._write_began = now
        return b"".join(parts), count

    def _written(self, octets: bytes) -> str | None:
        """Waits. None, or why not all of it could be written."""
        rest = memoryview(octets)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # the one that shares it with us has made it non-blocking
                ready = select.poll()
                ready.register(self._descriptor, select.POLLOUT)
                ready.poll()
            except OSError as error:
                return error.strerror or str(error)
        return None

    def _write_without_thread(self) -> None:
        octets, count = self._next()
        stated, problem = self._failed, None
        ready = select.poll()
        ready.register(self._descriptor, select.POLLOUT)
        while octets and problem is None:
            # A pipe that is ready takes PIPE_BUF bytes without waiting, terminals and sockets too.
            piece, octets = octets[:WRITE_BYTES_MAX], octets[WRITE_BYTES_MAX:]
            problem = self._written(piece) if ready.poll(0) else NOT_READ
        self._note(problem, count, stated)

    def _note(self, problem: str | None, count: int, stated: int) -> None:
        """After a write of `count` lines and of a notice of `stated` ones that were lost before."""
        began, self._write_began = self._write_began, None
        self.error = problem
        if problem is None:
            self._failed -= stated
            return
        if not self._failed and began is not None:
            self._failed_since = began
        self._failed += count
        self.lost_lines += count

    def _is_full(self, more_bytes: int) -> bool:
        if not self._lines:  # a line is never too long for an empty queue
            return False
        return len(self._lines) >= LINES_MAX or self._bytes + more_bytes > BYTES_MAX

    def _is_half_empty(self) -> bool:
        return len(self._lines) <= LINES_MAX // 2 and self._bytes <= BYTES_MAX // 2

    def _is_idle(self) -> bool:
        return not self._lines and self._write_began is None


def _plain_notice(lines: int, seconds: float, why: str) -> str:
    return f"{lines} lines were lost in {seconds:.1f} s: {why}"
