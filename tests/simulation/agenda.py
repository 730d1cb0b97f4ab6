"""Virtual time: what is going to happen, in order of time, and first planned first among equals."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Entry = tuple[float, int, Callable[..., None], tuple[Any, ...]]


class Agenda:
    def __init__(self) -> None:
        self.now = 0.0
        self._entries: list[Entry] = []
        self._planned = 0

    def at(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        """Plan an action; one that is due already happens next."""
        self._planned += 1
        heappush(self._entries, (max(time, self.now), self._planned, action, arguments))

    def after(self, delay_s: float, action: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now + delay_s, action, *arguments)

    def next_at(self) -> float | None:
        return self._entries[0][0] if self._entries else None

    def happen(self) -> None:
        """Move the clock to what is due next, and let it happen."""
        self.now, _, action, arguments = heappop(self._entries)
        action(*arguments)
