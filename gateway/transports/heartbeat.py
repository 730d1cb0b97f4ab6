"""Marks each second that the loop runs, and logs when it did not.

The clock finds a pause by the beat that did not come (process_pauses.py). Here it is only made
known: to the shell, which passes it to the core, and by a line in the log, one a minute at most,
with what was not logged before. Half a second is not worth a line; the metrics have it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gateway.core.process_pauses import BEAT_S
from gateway.transports import clock

log = logging.getLogger("tidegate")

LOGGED_FROM_S = 1.0
LOGGED_EVERY_S = 60.0
# A pause that sensors notice is logged at once: half of MQTT-SN's retry timer (7.2).
LOGGED_AT_ONCE_S = 5.0


class Heartbeat:
    def __init__(self, on_beat: Callable[[], None]) -> None:
        """`on_beat`: each second, after the clock has found whether the process stood still."""
        self._on_beat = on_beat
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle | None = None
        self._seen_s = self._logged_s = clock.pauses.seconds
        self._logged = clock.pauses.count
        self._quiet_until = 0.0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._beat()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            clock.rest()

    def _beat(self) -> None:
        self._timer = self._loop.call_later(BEAT_S, self._beat)
        clock.beat()
        self._on_beat()
        newest_s, self._seen_s = clock.pauses.seconds - self._seen_s, clock.pauses.seconds
        if newest_s:
            self._log(newest_s)

    def _log(self, newest_s: float) -> None:
        at, found = clock.now(), clock.pauses
        seconds, times = found.seconds - self._logged_s, found.count - self._logged
        is_quiet = newest_s < LOGGED_AT_ONCE_S and at < self._quiet_until
        if is_quiet or seconds < LOGGED_FROM_S:
            return
        self._logged_s, self._logged = found.seconds, found.count
        self._quiet_until = at + LOGGED_EVERY_S
        log.warning(
            "the process stood still for %.1f s%s (stopped, or the machine was suspended or "
            "overloaded): timers are extended by that time",
            seconds,
            f" in {times} pieces" if times > 1 else "",
        )
