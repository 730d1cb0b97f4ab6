"""Where the next readings go: the budget, what may be freed, and what must be written for that.

Rule 1: one spare segment is never given to readings: with it marks can be written, and a failed
        group saved, when the budget or the disk is full.
Rule 2: a drained segment is freed when its readings cannot be copies' originals any more, when
        drained ones take too much of the budget, or when there is no other room.
Rule 3: the newest segment is never freed, nor the one that is written to: it alone knows, over a
        restart, which numbers have been used. A segment with which a group failed to begin was
        never written to, so it is none; and when a group begins one, the last before it may go.
Rule 4: before a segment goes, what it says of others is written again (`restate`).
"""

from __future__ import annotations

from gateway.storage.journal.commit_group import CommitGroup
from gateway.storage.journal.options import (
    LAZY_PART,
    RECENT_SHARE,
    RETRY_AFTER_S,
    JournalOptions,
    WhenFull,
)
from gateway.storage.journal.records import HEAD_BYTES, Kind, exchange_body, marks_body, number_body
from gateway.storage.journal.segment import HEADER_BYTES
from gateway.storage.journal.segment_files import SegmentFiles, Spare
from gateway.storage.journal.segment_index import Exchange, ExchangeKey, Segment, SegmentIndex

FREES_MAX = 4  # in one group
# Kept free in each segment, for the mark that names a new boot.
SLACK_BYTES = 64
SESSION_BYTES = HEAD_BYTES + len(number_body(0))  # a new segment begins with it


def room_in(segment: Segment | None) -> int:
    return 0 if segment is None else segment.size - segment.end - SLACK_BYTES


class Space:
    def __init__(
        self, options: JournalOptions, segment_index: SegmentIndex, volume: SegmentFiles
    ) -> None:
        self.is_disk_full = False  # or broken: the last attempt to make a segment failed
        self._make_at = 0.0  # no attempt to make a segment before that
        self._free_at = 0.0
        self._options = options
        self._segment_index = segment_index
        self._volume = volume
        self._usual = options.segment_bytes
        self._overhead = HEADER_BYTES + SESSION_BYTES + options.lazy_bytes_max

    # How much there is

    @property
    def spares(self) -> list[Spare]:
        return self._volume.spares

    @property
    def bytes(self) -> int:
        """Of all files."""
        segments = sum(segment.size for segment in self._segment_index.segments)
        return segments + sum(spare.size for spare in self.spares)

    def can_make(self) -> bool:
        if self._segment_index.current is None and not self.spares:
            return True  # nothing can be written at all: that is worse than a budget exceeded
        return self._unused() >= self._usual or self._is_stuck()

    def _is_stuck(self) -> bool:
        """Not even marks can be written, and without them no reading goes and no room comes:
        something else has taken the spare.
        """
        room = room_in(self._segment_index.current)
        return not self.spares and room < self._overhead and not self.drained()

    def _unused(self) -> int:
        """Of the budget. What was made when segments were larger counts as one of the usual size:
        the newest could else take all of a smaller budget, and is not freed before the next begins.
        """
        left, usual = self._options.size_max_bytes, self._usual
        for segment in self._segment_index.segments:
            left -= segment.size if segment.size < usual else usual
        for spare in self.spares:
            left -= spare.size if spare.size < usual else usual
        return left

    def drained(self) -> list[Segment]:
        """Of those that may be freed (rule 3)."""
        return _finished(self._segment_index.segments[:-1])

    def standing(self) -> int:
        """Segments that are ready, or can be, when the one that is written to is full."""
        return len(self._ready()) + self._makeable()

    def _ready(self) -> list[int]:
        """The sizes of those that are there already."""
        sizes = [spare.size for spare in self.spares]
        sizes += [segment.size for segment in self.drained() if not segment.is_suspect]
        return sizes

    def _makeable(self) -> int:
        return 0 if self.is_disk_full else max(0, self._unused()) // self._usual

    def left(self) -> int:
        """About how many bytes of readings can still be taken."""
        sizes, makeable = self._ready(), self._makeable()
        if not sizes and not makeable:
            return 0
        kept_back = min(sizes) if sizes else self._usual  # the last to be used (rule 1)
        takes = sum(sizes) + makeable * self._usual - kept_back
        takes -= (len(sizes) + makeable - 1) * self._overhead
        return max(room_in(self._segment_index.current), 0) + takes

    def group_bytes_max(self, segment_bytes: int) -> int:
        """What a new segment takes beside marks that must be written again."""
        return segment_bytes - self._overhead

    def largest(self) -> int:
        """What the largest spare takes; there is one."""
        return self.group_bytes_max(self.spares[-1].size)

    def takes(self) -> int:
        """About what the next group can be: it goes on in its segment or begins another."""
        room = room_in(self._segment_index.current)
        return max(room, self.largest()) if self.spares else max(room, 0)

    # How it is made

    def plan(
        self, group: CommitGroup, now: float, *, is_wanted: bool, wanted_bytes: int = 0
    ) -> None:
        """Put into the group what makes room. `is_wanted`: readings wait that have none, and the
        first of them takes `wanted_bytes`.
        """
        spares = len(self.spares)
        is_needed = is_wanted or not spares
        can_make = self.can_make() and self._may_make(now)
        if now >= self._free_at:
            # By themselves: while every write fails, these are what goes on piling up.
            group.frees += self._bare()[:FREES_MAX]
            if group.frees:
                return
            for segment in self._disposable(now, is_needed=is_needed and not can_make):
                before = group.restated_bytes
                if self._restate(group, segment):
                    group.frees.append(segment)
                    if group.restated_bytes > before:
                        group.frees_by_marks.append(segment)
            if group.makes_room and (spares or not group.restated_bytes):
                return
        if is_needed and can_make:
            group.spare_bytes = self._usual
            group.spare_bytes_min = wanted_bytes + self._overhead
        elif is_wanted and self._options.when_full is WhenFull.DROP_OLDEST and now >= self._free_at:
            self._plan_drop(group)

    def _bare(self) -> list[Segment]:
        """Begun, and nothing came into them: every newer header says what theirs say. The newest
        too, if no group ever landed there: without it all is as it was before.
        """
        segments = self._segment_index.segments
        bare = [each for each in segments if each.is_suspect and each.end == HEADER_BYTES]
        if (
            bare
            and bare[-1] is segments[-1]
            and (bare[-1].has_landed or len(bare) == len(segments))
        ):
            bare.pop()
        return bare

    def _disposable(self, now: float, *, is_needed: bool) -> list[Segment]:
        options, segments = self._options, self._segment_index.segments
        # If nothing else can be written to, the next group begins a segment, which is the newest by
        # then. Else, where each one fails after its first group, they would pile up.
        is_to_begin = self._segment_index.current is None and self.spares
        drained = _finished(segments) if is_to_begin else self.drained()
        excess = sum(segment.size for segment in drained) - options.size_max_bytes // RECENT_SHARE
        chosen: list[Segment] = []
        for segment in drained:
            is_old = not 0 <= now - segment.newest_received_at < options.recent_s
            if is_old or segment.is_suspect or excess > 0 or (is_needed and not chosen):
                chosen.append(segment)
                excess -= segment.size
        return chosen[:FREES_MAX]

    def can_drop(self) -> bool:
        return self._options.when_full is WhenFull.DROP_OLDEST and self._droppable() is not None

    def _droppable(self) -> Segment | None:
        """The oldest segment whose unfinished readings all wait to be read back."""
        for segment in self._segment_index.segments[:-1]:
            if segment.queued and segment.queued == segment.unfinished:
                return segment
        return None

    def _plan_drop(self, group: CommitGroup) -> None:
        segment = self._droppable()
        if segment is not None and self._restate(group, segment):
            group.frees.append(segment)
            group.frees_by_marks.append(segment)
            group.drops = segment

    def _restate(self, group: CommitGroup, segment: Segment) -> bool:
        """Write again what this segment says of others. False: not all of it fits; go on with the
        next group.
        """
        living = self._segment_index.by_serial()
        room = self.takes() // LAZY_PART
        for serial in sorted(segment.about):
            about = living.get(serial)
            if about is None or about is segment or about in group.frees:
                continue
            if about not in group.restated_segments:
                if group.restated_bytes > room:
                    return False
                self._restate_marks(group, about)
        restated = dict(group.restated_exchanges)
        for key, exchange in segment.exchanges.items():
            if restated.get(key) != exchange:
                if group.restated_bytes > room:
                    return False
                self._restate_exchange(group, key, exchange)
        return True

    def _restate_marks(self, group: CommitGroup, about: Segment) -> None:
        session = self._segment_index.session
        body = marks_body(about.serial, about.first, session, about.durable_flags())
        group.restate(Kind.MARKS, body)
        for number in about.released_guests:
            group.restate(Kind.RELEASED, number_body(number))
        group.about.add(about.serial)
        group.restated_segments.append(about)

    def _restate_exchange(self, group: CommitGroup, key: ExchangeKey, exchange: Exchange) -> None:
        client_id, message_id = key
        body = exchange_body(exchange.number, exchange.contents, message_id, client_id)
        group.restate(Kind.EXCHANGE, body)
        group.restated_exchanges.append((key, exchange))

    def settle(self, group: CommitGroup, now: float) -> None:
        """What came of it."""
        error = group.room_error
        if error is None:
            if group.spare_bytes:
                self.is_disk_full = False
        elif len(group.freed) < len(group.frees):
            self._free_at = now + RETRY_AFTER_S
        else:
            self.is_disk_full = True
            self._make_at = now + RETRY_AFTER_S
        if group.freed:
            self.is_disk_full = False  # perhaps; it is worth a try

    def needs_spare(self, now: float) -> bool:
        """And may try to make it."""
        return not self.spares and self.can_make() and self._may_make(now)

    def _may_make(self, now: float) -> bool:
        return now >= self._make_at or not self.is_disk_full

    def wake_at(self, now: float) -> float | None:
        """When there will be room to be made."""
        times = [
            segment.newest_received_at + self._options.recent_s
            for segment in self.drained()
            if segment.newest_received_at <= now
        ]
        if not self.spares and self.can_make():
            times.append(self._make_at)
        return None if not times else max(min(times), self._free_at)


def _finished(segments: list[Segment]) -> list[Segment]:
    """Whose readings are all acknowledged or given up."""
    return [segment for segment in segments if not segment.unfinished]
