"""The end of the gateway, within `END_S` of the signal, whatever hangs.

Each part has until a stated moment to end by itself; the longest wait is for the disk. What has not
ended by then is left behind: the process ends without the interpreter's own clean-up, which would
wait for it. A power cut at that moment would do the same, so nothing acknowledged is lost. A thread
guards the whole, should the event loop itself be held up. A second signal ends it at once.

Only a thread that the kernel does not let go of (state D: a frozen file system) can keep the
process longer, as it would keep one that was killed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NoReturn

log = logging.getLogger("tidegate")

# Seconds after the signal until which each may take; the broker's connection has its own limit.
FLUSH_UNTIL_S = 1.0
JOURNAL_UNTIL_S = 3.0
STATE_UNTIL_S = 3.6
ADMIN_UNTIL_S = 4.0
END_S = 4.5
# For the last lines of the log, if they are read.
LOG_S = 0.3


class Shutdown:
    """`report`: what is left behind, in a sentence, or None if nothing is known of it. `code`: the
    exit code of an end that was requested.
    """

    def __init__(self) -> None:
        self.report: Callable[[], str | None] = lambda: None
        self.code = 0
        self._is_signalled = False
        self._begun_at: float | None = None
        self._is_over = threading.Event()
        self.is_overdue = False

    def on_signal(self, stop: Callable[[], None]) -> None:
        """From SIGTERM or SIGINT."""
        if self._is_signalled:
            self.exit_now(0, "it was asked to end a second time")
        self._is_signalled, self.code = True, 0  # also one that was to start again
        self.begin()
        stop()

    def begin(self) -> None:
        """From the signal, or from a start that failed."""
        if self._begun_at is None:
            self._begun_at = time.monotonic()
            with suppress(RuntimeError):  # the limit on threads is reached: it is not guarded
                threading.Thread(target=self._guard, name="ending", daemon=True).start()

    async def within(self, work: Awaitable[None], until_s: float) -> None:
        """Wait for it, until `until_s` after the beginning at most."""
        assert self._begun_at is not None
        try:
            async with asyncio.timeout(max(0.0, self._begun_at + until_s - time.monotonic())):
                await work
        except TimeoutError:
            self.is_overdue = True

    def over(self) -> None:
        """All has ended; the process may."""
        self._is_over.set()

    def exit_now(self, code: int, why: str) -> NoReturn:
        """End the process here and now, without waiting for anything but the log."""
        is_logged = threading.Event()
        with suppress(RuntimeError):
            threading.Thread(target=self._log_reason, args=(why, is_logged), daemon=True).start()
            is_logged.wait(LOG_S)
        os._exit(code)

    def _guard(self) -> None:
        if not self._is_over.wait(END_S):
            self.exit_now(self.code, f"not all of it ended within {END_S:.1f} s")

    def _log_reason(self, why: str, is_logged: threading.Event) -> None:
        log.warning("ended without waiting: %s", self.report() or why)
        for handler in logging.getLogger().handlers:
            with suppress(OSError, ValueError):
                handler.flush()
        is_logged.set()
