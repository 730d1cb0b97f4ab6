"""Which counters of a sender have come: a window of the last 64.

Rule 1: `judge` changes nothing. A counter is committed when its tag was found right.
Rule 2: nothing up to `floor` is new, whether or not it came: a run before this one may have taken
        it, or it is older than the answer that showed the sender to be there now.
Rule 3: one that is further ahead than `ahead_max` is not taken at once. So what a gateway saves
        every AHEAD_MAX counters is on the disk before it counts, also when the power fails.
"""

from __future__ import annotations

from enum import Enum

WINDOW = 64
AHEAD_MAX = 2048
_MASK = (1 << WINDOW) - 1


class Age(Enum):
    NEW = "new"
    SEEN = "seen"
    OLD = "old"  # or too far ahead: whether it is new is not known


class ReplayWindow:
    __slots__ = ("_ahead_max", "_bits", "floor", "highest")

    def __init__(self, highest: int, ahead_max: int, *, is_seen: bool = False) -> None:
        """`is_seen`: the highest one came in this run."""
        self.highest = self.floor = highest
        self._ahead_max = ahead_max
        self._bits = 1 if is_seen else 0  # the lowest is that of `highest`

    def judge(self, counter: int) -> Age:
        behind = self.highest - counter
        if behind < 0:
            return Age.NEW if -behind <= self._ahead_max else Age.OLD
        if behind >= WINDOW:
            return Age.OLD
        if self._bits >> behind & 1:
            return Age.SEEN
        return Age.OLD if counter <= self.floor else Age.NEW

    def commit(self, counter: int) -> None:
        """Of one that `judge` finds new."""
        ahead = counter - self.highest
        if ahead > 0:
            self._bits = (self._bits << min(ahead, WINDOW) | 1) & _MASK
            self.highest = counter
        else:
            self._bits |= 1 << -ahead
