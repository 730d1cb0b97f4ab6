"""One call in a thread of its own, for what may hang in the kernel: to open a port, or to close it.

An adapter whose firmware hangs holds such a call for half a minute. The loop's own executor would
do as well, but the loop waits for that before the gateway can stop. How many threads there are is
bounded by who uses this: one call at a time for each port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from gateway.host.limits import start_thread

Result = TypeVar("Result")


async def in_thread(
    call: Callable[[], Result], name: str, unclaimed: Callable[[Result], object]
) -> Result:
    """`unclaimed` gets, in a thread, a result that is not awaited any more. Raises LimitError."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Result] = loop.create_future()

    def deliver(result: Result) -> None:
        if answer.done():
            start_thread(partial(unclaimed, result), name)
        else:
            answer.set_result(result)

    def fail(error: Exception) -> None:
        if not answer.done():
            answer.set_exception(error)

    def work() -> None:
        try:
            result = call()
        except Exception as error:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(fail, error)
            return
        try:
            loop.call_soon_threadsafe(deliver, result)
        except RuntimeError:
            unclaimed(result)

    start_thread(work, name)
    return await answer
