"""How far a long job is, on stderr: one line that changes on a terminal, else a line now and then.

A job that ends soon says nothing.
"""

import sys
import time
from collections.abc import Callable
from contextlib import suppress

QUIET_S = 0.7
TERMINAL_S = 0.1
LINES_S = 5.0


class Progress:
    """`text_for` describes what has been done; before `quiet_s` (`QUIET_S`) nothing is said."""

    def __init__(self, text_for: Callable[[int], str], *, quiet_s: float | None = None) -> None:
        self._text_for = text_for
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._next_at = time.monotonic() + (QUIET_S if quiet_s is None else quiet_s)
        self._has_line = False

    def at(self, done: int) -> None:
        now = time.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + (TERMINAL_S if self._is_terminal else LINES_S)
        if self._is_terminal:
            _write(f"\r{self._text_for(done)}\x1b[K")
            self._has_line = True
        else:
            _write(f"{self._text_for(done)}\n")

    def end(self) -> None:
        """Takes its line away again."""
        if self._has_line:
            _write("\r\x1b[K")


def _write(text: str) -> None:
    with suppress(OSError):  # how far it is matters less than the job
        print(text, end="", file=sys.stderr, flush=True)
