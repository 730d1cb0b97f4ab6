"""A call that may never return, in a thread of its own: a file on a disk that hangs, for one.

`SideThread` is for the event loop: one call at a time, so that what hangs holds one thread however
often it is asked for. `within` is for a command that has no loop. The thread ends with its call; it
does not keep the process from ending. Nothing can stop a call in the kernel: after the time limit
its result is given up, and the thread is there until the kernel lets it go.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from gateway.host.limits import no_thread

R = TypeVar("R")


class OverdueError(Exception):
    """Not within the time limit. Not a TimeoutError, which is what a disk may answer with."""


class BusyError(Exception):
    """The call before has not returned yet."""


class NoThreadError(OSError):
    """RLIMIT_NPROC, pids.max of the control group, or memory."""


class _Call(Generic[R]):
    """In the thread: what it returns or raises."""

    def __init__(self, call: Callable[[], R], name: str, done: Callable[[], None]) -> None:
        self._call = call
        self._done = done
        self._result: list[R] = []
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._work, name=name, daemon=True)
        try:
            self.thread.start()
        except RuntimeError as error:
            raise NoThreadError(errno.EAGAIN, str(no_thread())) from error

    def answer(self) -> R:
        if self._error is not None:
            raise self._error
        return self._result[0]

    def _work(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as error:  # whatever it is: somebody waits
            self._error = error
        self._done()


def within(seconds: float, call: Callable[[], R], name: str) -> R:
    """Raises OverdueError, or what `call` raises. Without a thread there is no limit."""
    try:
        under_way = _Call(call, name, lambda: None)
    except NoThreadError:
        return call()
    under_way.thread.join(seconds)
    if under_way.thread.is_alive():
        raise OverdueError
    return under_way.answer()


class SideThread:
    def __init__(self, name: str) -> None:
        self._name = name
        self._begun_at: float | None = None
        self._is_overdue = False

    @property
    def is_busy(self) -> bool:
        return self._begun_at is not None

    @property
    def overdue_s(self) -> float | None:
        """Since when, in seconds, a call is under way that is over its limit; None without any."""
        begun_at = self._begun_at
        return time.monotonic() - begun_at if begun_at is not None and self._is_overdue else None

    async def run(
        self,
        call: Callable[[], R],
        limit_s: float,
        ended_late: Callable[[], None] | None = None,
    ) -> R:
        """Raises BusyError, OverdueError, NoThreadError, or what `call` raises.

        `ended_late` follows an OverdueError as soon as the call has returned all the same.
        """
        if self.is_busy:
            raise BusyError
        import asyncio  # not for a command that has no loop

        loop = asyncio.get_running_loop()
        returned = asyncio.Event()

        def end() -> None:
            was_overdue = self._is_overdue
            self._begun_at, self._is_overdue = None, False
            returned.set()
            if was_overdue and ended_late is not None:
                ended_late()

        def done() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(end)

        under_way = _Call(call, self._name, done)
        self._begun_at = time.monotonic()
        try:
            async with asyncio.timeout(limit_s):
                await returned.wait()
        except TimeoutError:
            if returned.is_set():
                return under_way.answer()
            self._is_overdue = True
            raise OverdueError from None
        return under_way.answer()
