"""What held the event loop for longer than SLOW_S, by name: counted, and logged now and then.

While one callback runs nobody else is served. asyncio's own debug mode reports it, uvloop has none,
and both would cost each message; here the owner of an entry point measures one batch of work.

Limit: a name is a member of Callback, and has one line of the log in each LINE_EVERY_S, with the
worst of its callbacks since the last line.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from enum import Enum
from math import inf
from time import monotonic
from typing import Any, TypeVar

log = logging.getLogger("tidegate")

SLOW_S = 0.05
LINE_EVERY_S = 60.0

R = TypeVar("R")


class Callback(Enum):
    """Labels of a metric; none is ever made of what a peer sent."""

    SENSORS = "sensors"  # datagrams and messages from them, one batch
    BROKER = "broker"  # bytes from it, its connection opened or closed
    TIMER = "timer"  # of sessions, retries and wills
    JOURNAL = "journal"  # what it stored or read back is handed on
    STATE = "state"  # what became durable is handed on
    OPERATOR = "operator"  # an action, and messages of the gateway's own
    HOUSEKEEPING = "housekeeping"  # each second
    PRESENCE = "presence"  # looks at the devices, four times a second
    PAGE = "page"  # one step of answering a request


@dataclass(slots=True)
class _Tally:
    count: int = 0
    worst_s: float = 0.0  # since the last line, and so many:
    unreported: int = 0
    line_at: float = -inf


class SlowCallbacks:
    def __init__(self) -> None:
        self._tallies = {callback: _Tally() for callback in Callback}

    @property
    def counts(self) -> dict[str, int]:
        return {callback.value: tally.count for callback, tally in self._tallies.items()}

    def ended(self, callback: Callback, began: float) -> None:
        """`began`: in monotonic seconds."""
        at = monotonic()
        if at - began > SLOW_S:
            self.note(callback, at - began, at)

    def note(self, callback: Callback, took_s: float, now: float) -> None:
        tally = self._tallies[callback]
        tally.count += 1
        tally.unreported += 1
        tally.worst_s = max(tally.worst_s, took_s)
        self._report(callback, tally, now)

    def beat(self, now: float) -> None:
        """About once a second: lines that had to wait."""
        for callback, tally in self._tallies.items():
            if tally.unreported:
                self._report(callback, tally, now)

    def _report(self, callback: Callback, tally: _Tally, now: float) -> None:
        if now - tally.line_at < LINE_EVERY_S:
            return
        log.warning(
            "the event loop was held by %s for %.3f s, %d times over %.2f s since the last such "
            "line: sensors waited",
            callback.value,
            tally.worst_s,
            tally.unreported,
            SLOW_S,
        )
        tally.line_at, tally.worst_s, tally.unreported = now, 0.0, 0


async def timed(work: Coroutine[Any, Any, R], slow: SlowCallbacks, callback: Callback) -> R:
    """The same, each of its steps between two waits measured."""
    result: R = await _Steps(work, slow, callback)
    return result


class _Steps:
    def __init__(
        self, work: Coroutine[Any, Any, Any], slow: SlowCallbacks, callback: Callback
    ) -> None:
        self._work, self._slow, self._callback = work, slow, callback

    def __await__(self) -> Generator[Any, Any, Any]:
        work = self._work
        error: BaseException | None = None
        try:
            while True:
                began = monotonic()
                try:
                    waits_for = work.send(None) if error is None else work.throw(error)
                except StopIteration as end:
                    return end.value
                finally:
                    self._slow.ended(self._callback, began)
                error = None
                try:
                    yield waits_for
                except GeneratorExit:
                    raise
                except BaseException as raised:  # also a cancellation: it is for the work
                    error = raised
        finally:
            work.close()
