"""A thread for work that blocks: one job after the other, each answered by a future of the loop.

`concurrent.futures` does the same with a lock and a future of its own for each job, at two to three
times the price, which readings that come in groups of ten notice.

Full: the owner has one under way at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic
from typing import Any, Protocol, TypeVar, TypeVarTuple, Unpack

from gateway.host.limits import start_thread

R = TypeVar("R")
Given = TypeVarTuple("Given")
Job = tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]


class Jobs(Protocol):
    """What a committer needs of its thread."""

    def run(self, work: Callable[[Unpack[Given]], R], *given: *Given) -> asyncio.Future[R]: ...

    def busy_s(self) -> float:
        """How long the job has taken that is being done; 0 if none is."""
        ...

    def stop(self) -> None: ...


class WorkThread:
    """Begins at once, while there is memory for it, or raises LimitError. Does not keep the process
    from ending: what blocks then is a write that a power cut could have ended as well.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._busy_since: float | None = None
        self._thread = start_thread(self._work, name)

    def run(self, work: Callable[[Unpack[Given]], R], *given: *Given) -> asyncio.Future[R]:
        """What `work` returns or raises is the future's."""
        future: asyncio.Future[R] = self._loop.create_future()
        self._jobs.put((future, work, given))
        return future

    def busy_s(self) -> float:
        since = self._busy_since
        return 0.0 if since is None else monotonic() - since

    def stop(self) -> None:
        """When all jobs are done it ends by itself; from now on there are none."""
        self._jobs.put(None)

    def _work(self) -> None:
        while self._do(self._jobs.get()):
            pass

    def _do(self, job: Job | None) -> bool:
        """Holds nothing of a job beyond its end: nobody knows when the next one comes."""
        if job is None:
            return False
        future, work, given = job
        result, error = None, None
        self._busy_since = monotonic()
        try:
            result = work(*given)
        except BaseException as raised:  # whatever it is: somebody waits
            error = raised
        self._busy_since = None
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(_settle, future, result, error)
        return True


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():  # the caller has been cancelled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
