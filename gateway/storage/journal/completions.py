"""Marks that wait to be written: facts about readings, already true in the ledger.

Released and received are waited for, in order; what is finished is written with the next group, in
runs, and of what came in order only how far it goes. A group that fails leaves them here.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from gateway.storage.journal.commit_group import CommitGroup
from gateway.storage.journal.records import Kind, number_body, received_body, run_body
from gateway.storage.journal.segment_index import SegmentIndex

# What one group takes of each kind, as a part of the bytes that there are for it: 256 where those
# are 64 KiB, and 15 KiB together.
PART = 256
COUNT_MIN = 8  # where there are hardly any
NOTHING = -1  # what a mark is about that is about no reading


class Completions:
    def __init__(self, segment_index: SegmentIndex) -> None:
        self.durable = 0  # of the awaited ones, all up to this one
        self.done_up_to = -1  # as it is written
        self._segment_index = segment_index
        self._awaited: list[tuple[Kind, int, bytes]] = []  # with what it is about, or -1
        self._idle: list[int] = []  # released, nobody waits for it
        self._done: set[int] = set()
        self._kept: set[int] = set()

    @property
    def last(self) -> int:
        return self.durable + len(self._awaited)

    @property
    def awaited(self) -> int:
        return len(self._awaited)

    @property
    def is_any(self) -> bool:
        return bool(self._awaited or self._idle or self._done or self._kept)

    def await_released(self, number: int) -> int:
        return self._await(Kind.RELEASED, number, number_body(number))

    def await_received(self, number: int) -> int:
        return self._await(
            Kind.RECEIVED, number, received_body(number, self._segment_index.session)
        )

    def await_session(self, session: int) -> int:
        return self._await(Kind.SESSION, NOTHING, number_body(session))

    def _await(self, kind: Kind, number: int, body: bytes) -> int:
        self._awaited.append((kind, number, body))
        return self.last

    def add_released(self, number: int) -> None:
        self._idle.append(number)

    def add_done(self, numbers: Collection[int]) -> None:
        self._done.update(numbers)
        if self._kept:
            self._kept.difference_update(numbers)

    def add_kept(self, number: int) -> None:
        self._kept.add(number)

    def take(self, group: CommitGroup, done_up_to: int, bytes_max: int) -> None:
        """Put what waits into the group; `done_up_to`: so far it is all finished. `bytes_max`: what
        the segment takes that the group goes into, of which marks have a part.
        """
        count_max = max(COUNT_MIN, bytes_max // PART)
        about = self._segment_index.note_marked_by
        for kind, number, body in islice(self._awaited, count_max):
            group.marks.append((kind, body))
            about(number, group.about)
            group.awaited += 1
        group.idle = self._idle[:count_max]
        for number in group.idle:
            group.marks.append((Kind.RELEASED, number_body(number)))
            about(number, group.about)
        if self._done:
            self._take_done(group, done_up_to, count_max)
        if self._kept:
            group.kept = self._take_runs(group, Kind.KEPT, sorted(self._kept), count_max)

    def _take_done(self, group: CommitGroup, done_up_to: int, count_max: int) -> None:
        numbers = sorted(self._done)
        if done_up_to >= numbers[0]:
            group.done_up_to = done_up_to
            group.marks.append((Kind.DONE_UP_TO, number_body(done_up_to)))
            between = self._segment_index.between(numbers[0], done_up_to)
            group.about |= {segment.serial for segment in between}
        open_ends = [number for number in numbers if number > done_up_to]
        group.done = numbers[: len(numbers) - len(open_ends)]
        group.done += self._take_runs(group, Kind.DONE_ONE, open_ends, count_max)

    def _take_runs(
        self, group: CommitGroup, kind: Kind, numbers: list[int], count_max: int
    ) -> list[int]:
        """As many runs of these as go into one group; returns what is in them."""
        runs: list[list[int]] = []
        taken: list[int] = []
        for number in numbers:
            if runs and runs[-1][0] + runs[-1][1] == number:
                runs[-1][1] += 1
            elif len(runs) == count_max:
                break
            else:
                runs.append([number, 1])
            taken.append(number)
        for first, count in runs:
            group.marks.append((kind, run_body(first, count)))
            between = self._segment_index.between(first, first + count - 1)
            group.about |= {segment.serial for segment in between}
        return taken

    def settle(self, group: CommitGroup) -> None:
        """They are written."""
        del self._awaited[: group.awaited]
        self.durable += group.awaited
        del self._idle[: len(group.idle)]
        self._done.difference_update(group.done)
        self._kept.difference_update(group.kept)
        self.done_up_to = max(self.done_up_to, group.done_up_to)

    def forget(self, first: int, end: int) -> None:
        """A segment is gone, and with it what there was to say of its readings."""
        for numbers in (self._done, self._kept):
            if numbers:
                numbers.difference_update(range(first, end))
