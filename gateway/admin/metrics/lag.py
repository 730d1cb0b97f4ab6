"""How late the event loop is: what was to be called now is called so many seconds later.

Everything the gateway does waits its turn on one loop, so this one number says whether it keeps up.
A loop that hangs answers nobody; the first thing it says afterwards is how long it hung.
"""

from __future__ import annotations

import asyncio

BEAT_S = 1.0
WORST_KEPT_S = 60.0  # a scrape each minute still sees the worst moment between two of them
UNHEALTHY_AFTER_S = 5.0  # half of MQTT-SN's retry timer, 10 to 15 s (7.2): sensors see it


class LagMeter:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        beat_s: float = BEAT_S,
        unhealthy_after_s: float = UNHEALTHY_AFTER_S,
        worst_kept_s: float = WORST_KEPT_S,
    ) -> None:
        self._loop = loop
        self._beat_s = beat_s
        self._unhealthy_after_s = unhealthy_after_s
        self._worst_kept_s = worst_kept_s
        self._beat: asyncio.TimerHandle | None = None
        self._due_at = 0.0
        self._last_s = 0.0
        # Of the period that runs, and of the one before it.
        self._worst_s = self._worst_before_s = 0.0
        self._worst_until = 0.0

    def start(self) -> None:
        self._worst_until = self._loop.time() + self._worst_kept_s
        self._set_beat()

    def stop(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    @property
    def lag_s(self) -> float:
        """Now: of the last beat, or of the one that has not come yet."""
        return max(self._last_s, self._overdue_s())

    @property
    def worst_s(self) -> float:
        """Of the last minute, or of up to two."""
        return max(self._worst_s, self._worst_before_s, self._overdue_s())

    def check(self) -> str | None:
        """For /healthz: what is wrong, or None."""
        if self.lag_s <= self._unhealthy_after_s:
            return None
        return (
            f"the event loop is {self.lag_s:.1f} s late, more than {self._unhealthy_after_s:g} s: "
            "this machine is overloaded, or something blocks"
        )

    def _overdue_s(self) -> float:
        return max(0.0, self._loop.time() - self._due_at) if self._beat is not None else 0.0

    def _set_beat(self) -> None:
        self._due_at = self._loop.time() + self._beat_s
        self._beat = self._loop.call_at(self._due_at, self._beaten)

    def _beaten(self) -> None:
        self._last_s = self._overdue_s()
        now = self._loop.time()
        if now >= self._worst_until:
            self._worst_until = now + self._worst_kept_s
            self._worst_before_s, self._worst_s = self._worst_s, 0.0
        self._worst_s = max(self._worst_s, self._last_s)
        self._set_beat()
