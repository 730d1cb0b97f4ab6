"""A port that is lent to another program for a while: to flash its board, or to look at it.

It is taken back when the time is over or the gateway starts again: it cannot be forgotten.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import inf

from gateway.transports.clock import now

GIVEN_WITHIN_S = 5.0  # else the kernel still waits for the adapter


class PortLoan:
    """Between the link that keeps the port open and the operator who needs it."""

    def __init__(self) -> None:
        self._until = -inf
        self._changed = asyncio.Event()
        self._given = asyncio.Event()

    # From the operator

    async def begin(self, seconds: float) -> bool:
        """For so long from now on; 0 ends it. Whether the port is free already."""
        self._until = now() + seconds
        self._changed.set()
        if not seconds:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(GIVEN_WITHIN_S):
                await self._given.wait()
        return self._given.is_set()

    @property
    def left_s(self) -> float:
        return max(0.0, self._until - now())

    # From the link

    async def pause(self, seconds: float) -> None:
        """So long; less if something is asked for."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def over(self) -> None:
        """The port is closed: wait until it may be opened."""
        while (left_s := self.left_s) > 0:
            self._given.set()
            await self.pause(left_s)
        self._given.clear()
