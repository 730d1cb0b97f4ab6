"""Readings a second into the journal and out of it, over the last minute.

The journal counts what it stored and finished since it was opened; someone notes both about once a
second. Notes older than the window are forgotten at the next one, so a machine that was suspended
has no rate when it goes on, rather than a wrong one.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

WINDOW_S = 60.0
NOTE_S_MIN = 0.5  # so that WINDOW_S holds at most 120 notes, however often someone calls


class Rates(NamedTuple):
    """`None` while there are no two notes to compare."""

    in_per_s: float | None
    out_per_s: float | None


class _Note(NamedTuple):
    at: float
    stored: int
    finished: int


class Throughput:
    def __init__(self) -> None:
        self._notes: deque[_Note] = deque()

    def note(self, stored: int, finished: int, now: float) -> None:
        notes = self._notes
        if notes and now - notes[-1].at < NOTE_S_MIN:
            return
        while notes and now - notes[0].at > WINDOW_S:
            notes.popleft()
        notes.append(_Note(now, stored, finished))

    @property
    def rates(self) -> Rates:
        if len(self._notes) < 2:
            return Rates(None, None)
        first, last = self._notes[0], self._notes[-1]
        seconds = last.at - first.at
        return Rates(
            (last.stored - first.stored) / seconds, (last.finished - first.finished) / seconds
        )
