"""Readings that the broker has taken and the journal keeps: which, since when, how often sent.

Neighbours are one run: sequence and place in the journal rise together, so that a million readings
are a few thousand runs. Runs are joined if the broker took them within `JOIN_S`, and as much as
possible when there are too many.

Full: beyond `RUNS_MAX` runs that cannot be joined, a reading is not kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

JOIN_S = 10.0
RUNS_MAX = 50_000


@dataclass(slots=True)
class Run:
    """`count` readings of an epoch from the sequence `first` on, in the journal from `record` on;
    the broker took them from `since` to `taken_at`; `again`: how often they were sent again.
    """

    epoch: int
    first: int
    record: int
    count: int
    taken_at: float
    again: int = 0
    since: float = inf  # as `taken_at`, if nothing else is said

    def __post_init__(self) -> None:
        self.since = min(self.since, self.taken_at)

    @property
    def end(self) -> int:
        return self.first + self.count

    def part(self, first: int, end: int) -> Run:
        record = self.record + first - self.first
        return replace(self, first=first, record=record, count=end - first)


class KeptReadings:
    def __init__(self) -> None:
        self.count = 0
        self.runs = 0
        self._of: dict[int, list[Run]] = {}  # by epoch, in order, none overlapping another

    def __iter__(self) -> Iterator[Run]:
        """The oldest first."""
        for epoch in sorted(self._of):
            yield from self._of[epoch]

    def __contains__(self, place: tuple[int, int]) -> bool:
        """An epoch and a sequence."""
        epoch, sequence = place
        runs = self._of.get(epoch, [])
        index = bisect_right(runs, sequence, key=_first) - 1
        return index >= 0 and sequence < runs[index].end

    def add(self, run: Run) -> bool:
        """False for what is there, and when there is no room."""
        if (run.epoch, run.first) in self:
            return False
        runs = self._of.setdefault(run.epoch, [])
        index = bisect_right(runs, run.first, key=_first)
        if index and _follows(runs[index - 1], run, JOIN_S):
            _join(runs[index - 1], run)
        elif self.runs >= RUNS_MAX and not self._make_room():
            return False
        else:
            runs.insert(bisect_right(runs, run.first, key=_first), run)
            self.runs += 1
        self.count += run.count
        return True

    def take(self, epoch: int, first: int, end: int) -> list[Run]:
        """What is kept of these sequences, and is no more."""
        runs = self._of.get(epoch)
        if runs is None:
            return []
        start = max(0, bisect_right(runs, first, key=_first) - 1)
        stop = bisect_right(runs, end - 1, key=_first)
        taken: list[Run] = []
        left: list[Run] = []
        for run in runs[start:stop]:
            cut_from, cut_to = max(first, run.first), min(end, run.end)
            if cut_from >= cut_to:
                left.append(run)
                continue
            taken.append(run.part(cut_from, cut_to))
            if run.first < cut_from:
                left.append(run.part(run.first, cut_from))
            if cut_to < run.end:
                left.append(run.part(cut_to, run.end))
        runs[start:stop] = left
        self.runs += len(left) - (stop - start)
        self.count -= sum(run.count for run in taken)
        if not runs:
            del self._of[epoch]
        return taken

    def _make_room(self) -> bool:
        """Join whatever are neighbours, whenever the broker took them."""
        for runs in self._of.values():
            joined: list[Run] = []
            for run in runs:
                if joined and _follows(joined[-1], run, inf):
                    _join(joined[-1], run)
                else:
                    joined.append(run)
            self.runs -= len(runs) - len(joined)
            runs[:] = joined
        return self.runs < RUNS_MAX


def _first(run: Run) -> int:
    return run.first


def _follows(run: Run, other: Run, within_s: float) -> bool:
    return (
        run.end == other.first
        and run.record + run.count == other.record
        and run.again == other.again
        and abs(other.taken_at - run.since) <= within_s
    )


def _join(run: Run, other: Run) -> None:
    run.count += other.count
    run.taken_at = max(run.taken_at, other.taken_at)
    run.since = min(run.since, other.since)
