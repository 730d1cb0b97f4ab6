"""How long the last calls of fdatasync took: a card that wears out shows it here first.

The journal's thread notes, the loop asks: what is asked for is noted in single steps, which need no
lock.
"""

from __future__ import annotations

from collections import deque
from math import ceil

KEPT_MAX = 1000


class SyncTimes:
    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=KEPT_MAX)
        self.count = 0  # of all calls
        self.total_s = 0.0

    def note(self, seconds: float) -> None:
        self._seconds.append(seconds)
        self.count += 1
        self.total_s += seconds

    def quantiles(self, *shares: float) -> list[float | None]:
        """The least time that this share of the calls did not exceed; None before there are any."""
        ordered = sorted(self._seconds.copy())
        return [ordered[ceil(share * len(ordered)) - 1] if ordered else None for share in shares]
