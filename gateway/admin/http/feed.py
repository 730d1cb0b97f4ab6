"""Live updates for open pages: what one looks at, as server-sent events, and only what changed.

A page says which view it shows (`views.py`), and hears of it from then on:

- at once when a sensor has come, gone or changed its state, at most once in BEAT_S; of all else,
  such as rates and values, once in LOOK_S;
- what takes long to find out (a list of 100,000 sensors by state) is looked for less often, so that
  looking never takes more than a twentieth of the time;
- nothing while nothing has changed, but a comment each IDLE_S, so that a page that is gone is
  noticed.

A page that does not take what it is sent gets nothing more until it has: nothing is queued for it.
Limit: FEEDS_MAX pages; the next one is refused, and asks again by itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from time import perf_counter

from gateway.admin.http.connections import Pieces
from gateway.admin.http.views import Events, View

log = logging.getLogger("tidegate.admin")

BEAT_S = 0.25
LOOK_S = 1.0
IDLE_S = 15.0
FEEDS_MAX = 8
RETRY_MS = 2000
SHARE_MAX = 20  # of the time: looking is one part of so many


class Feeds:
    """`pulse` is another value when something has happened that should be seen at once."""

    def __init__(self, pulse: Callable[[], object], looked_at: Callable[[int], None]) -> None:
        self._pulse = pulse
        self._looked_at = looked_at
        self._open = 0

    @property
    def is_full(self) -> bool:
        return self._open >= FEEDS_MAX

    async def pieces(self, view: View) -> Pieces:
        """Until it is closed."""
        self._count(+1)
        try:
            yield f"retry: {RETRY_MS}\n\n".encode()
            async for piece in self._updates(view):
                yield piece
        except Exception:  # asyncio would write a traceback
            log.exception("cannot look")
        finally:
            self._count(-1)

    async def _updates(self, view: View) -> Pieces:
        idle_s = 0.0
        while True:
            pulse, began = self._pulse(), perf_counter()
            events = await view.look()
            took_s = perf_counter() - began
            octets = _written(events)
            idle_s = 0.0 if octets else idle_s
            if idle_s >= IDLE_S:
                octets, idle_s = b": still here\n\n", 0.0
            if octets:
                yield octets
            idle_s += await self._wait(pulse, took_s)

    async def _wait(self, pulse: object, took_s: float) -> float:
        """Until it is time to look again; returns how long that was."""
        least_s = max(BEAT_S, SHARE_MAX * took_s)
        await asyncio.sleep(least_s)
        waited_s = least_s
        while waited_s < LOOK_S and self._pulse() == pulse:
            await asyncio.sleep(BEAT_S)
            waited_s += BEAT_S
        return waited_s

    def _count(self, change: int) -> None:
        self._open += change
        self._looked_at(self._open)


def _written(events: Events) -> bytes:
    return "".join(
        f"event: {name}\ndata: {json.dumps(body, separators=(',', ':'))}\n\n"
        for name, body in events
    ).encode()
