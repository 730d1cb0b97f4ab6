"""So many a second, and so many at once: what a group of peers may use of something.

It is full at the beginning, and fills at an even rate up to what may be used at once.
"""

from __future__ import annotations


class TokenBucket:
    __slots__ = ("_at_once", "_filled_at", "_left", "_per_s")

    def __init__(self, per_s: float, at_once: float) -> None:
        self._per_s = per_s
        self._at_once = self._left = float(at_once)
        self._filled_at = 0.0

    def has(self, now: float) -> bool:
        """Whether `take` would find one."""
        return self._left + (now - self._filled_at) * self._per_s >= 1

    def take(self, now: float) -> bool:
        """Whether there was one left to take."""
        left = self._left + (now - self._filled_at) * self._per_s
        self._filled_at = now
        if left > self._at_once:
            left = self._at_once
        if left < 1:
            self._left = left
            return False
        self._left = left - 1
        return True
