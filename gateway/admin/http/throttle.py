"""How many lines one kind of event may write, whatever peers send.

- At most `lines_max` lines in any WINDOW_S. The next event begins a hold: it and all that follow
  are counted, not written.
- A hold ends with one line that has their number. While more keep coming the next hold is twice as
  long, up to HOLD_S_MAX: a fault of weeks costs 288 lines a day, not one for each datagram.
- The first hold in which nothing came is the end of it, and lines are written again.
- Nothing is lost between: `due` and `rest` hand out every event that was held back, once.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Generic, NamedTuple, TypeVar

WINDOW_S = 10.0
HOLD_S_MAX = 300.0

Event = TypeVar("Event")


class Suppressed(NamedTuple, Generic[Event]):
    """`events` in `seconds`, the last of them being `last`."""

    events: int
    seconds: float
    last: Event


class Throttle(Generic[Event]):
    __slots__ = ("_held_since", "_hold_s", "_last", "_lines_at", "ends_at", "held_back")

    def __init__(self, lines_max: int) -> None:
        self.ends_at: float | None = None  # of the hold, if there is one
        self.held_back = 0
        self._hold_s = WINDOW_S
        self._held_since = 0.0
        self._last: Event | None = None
        self._lines_at: deque[float] = deque([-inf] * lines_max, maxlen=lines_max)

    def hold(self, event: Event, count: int) -> None:
        """While there is a hold; on the way of a flood, so as little as can be."""
        self.held_back += count
        self._last = event

    def may_write(self, event: Event, count: int, now: float) -> bool:
        """While there is no hold. False: the event began one."""
        if now - self._lines_at[0] >= WINDOW_S:
            self._lines_at.append(now)
            return True
        self._begin(WINDOW_S, now)
        self.hold(event, count)
        return False

    def due(self, now: float) -> Suppressed[Event] | None:
        """What the hold that is over has held back."""
        if self.ends_at is None or now < self.ends_at:
            return None
        held_back = self.rest(now)
        if held_back is None:
            self.ends_at = None
        else:
            self._begin(min(2 * self._hold_s, HOLD_S_MAX), now)
        return held_back

    def rest(self, now: float) -> Suppressed[Event] | None:
        """What has been held back up to now, at the end of the daemon."""
        if not self.held_back or self._last is None:
            return None
        held_back = Suppressed(self.held_back, now - self._held_since, self._last)
        self.held_back, self._last = 0, None
        return held_back

    def _begin(self, hold_s: float, now: float) -> None:
        self._hold_s, self._held_since, self.ends_at = hold_s, now, now + hold_s
