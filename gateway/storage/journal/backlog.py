"""How far the readings queued on disk were read back. The cursor never goes back: what is queued on
disk is always written behind it.

A segment that cannot be opened (removed, another owner, no descriptor left) stops what is behind it
for `UNREADABLE_S`, as nothing is to overtake it. Then it is passed over: the rest goes on, and its
own readings follow when it can be opened again. Blocks that cannot be read are tried for as long;
then what was in them is lost, and so for the next `UNREADABLE_S` whatever else cannot be read: a
disk that is spoilt in many places does not hold up the rest for each of them.
"""

from __future__ import annotations

from math import inf

from gateway.core.values import Reading
from gateway.storage.journal.commit_group import BacklogRequest, Failed, Stretch
from gateway.storage.journal.options import UNREADABLE_S
from gateway.storage.journal.segment import HEADER_BYTES
from gateway.storage.journal.segment_index import Segment, SegmentIndex

STRETCHES_MAX = 64  # in one request


class Backlog:
    def __init__(self, segment_index: SegmentIndex) -> None:
        self._segment_index = segment_index
        self._serial = 0  # of the segment that was read last, and how far
        self._offset = HEADER_BYTES
        self._failed: Failed | None = None  # the next one, and since when
        self._failed_since = 0.0
        self._accepts_until = -inf  # gaps, without trying again
        # By serial: how far each was read, and why it could not be opened.
        self._passed_over: dict[int, tuple[int, str]] = {}
        self._back: dict[int, int] = {}  # those of them that can be opened again

    def begin(self) -> list[Stretch]:
        stretches: list[Stretch] = []
        for segment in self._segment_index.segments:
            serial = segment.serial
            if not segment.queued or serial in self._passed_over:
                continue
            if serial in self._back:
                offset = self._back[serial]
            elif serial < self._serial:
                continue
            else:
                offset = self._offset if serial == self._serial else HEADER_BYTES
            stretches.append(
                Stretch(segment=segment, offset=offset, end=segment.end, read_to=offset)
            )
            if len(stretches) == STRETCHES_MAX:
                break
        return stretches

    def end(
        self, request: BacklogRequest, readings: list[Reading]
    ) -> tuple[list[Reading], list[int]]:
        """The readings that go to the core, and the numbers of those that could not be read."""
        taken = [reading for reading in readings if self._segment_index.take(reading.record)]
        lost: list[int] = []
        for stretch in request.stretches:
            segment = stretch.segment
            if stretch.read_to == stretch.offset:
                break
            if segment.serial in self._back:
                self._back[segment.serial] = stretch.read_to
            else:
                self._serial, self._offset = segment.serial, stretch.read_to
            if stretch.read_to >= stretch.end:
                if segment.queued:
                    wanted = filter(segment.is_wanted, range(len(segment.flags)))
                    lost += [segment.first + index for index in wanted]
                self._back.pop(segment.serial, None)
        self._note(request.failed, request.now)
        return taken, lost

    # What cannot be opened, or read

    def accepts_gaps(self, now: float) -> bool:
        return now < self._accepts_until

    def _note(self, failed: Failed | None, now: float) -> None:
        before, self._failed = self._failed, failed
        if failed is None:
            return
        serial = failed.segment.serial
        if before is None or before.segment is not failed.segment:
            self._failed_since = now
        elif failed.has_gaps and now - self._failed_since >= UNREADABLE_S:
            self._accepts_until = now + UNREADABLE_S
        elif now - self._failed_since >= UNREADABLE_S:
            offset = self._offset if serial == self._serial else HEADER_BYTES
            self._passed_over[serial] = self._back.pop(serial, offset), _sentence(failed)
            self._failed = None

    @property
    def out_of_reach(self) -> list[Segment]:
        """Those that could not be opened when they were tried last, and have readings queued on
        disk.
        """
        failed = None if self._failed is None else self._failed.segment
        return [
            each
            for each in self._segment_index.segments
            if each.queued and (each is failed or each.serial in self._passed_over)
        ]

    @property
    def problem(self) -> str:
        """Why one of them could not be opened; empty if all can."""
        if self._failed is not None:
            return _sentence(self._failed)
        return next((sentence for _, sentence in self._passed_over.values()), "")

    def can_be_opened(self, segment: Segment) -> int:
        """As a look has found; returns how many readings come back into reach."""
        if segment.serial not in self._passed_over:
            return 0
        self._back[segment.serial], _ = self._passed_over.pop(segment.serial)
        return segment.queued


def _sentence(failed: Failed) -> str:
    return f"{failed.segment.name}: {failed.why}"
