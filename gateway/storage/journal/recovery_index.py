"""What marks say of readings, in any order, and of some before they are met: recovery's notebook.

A mark whose reading's segment is gone says nothing any more; of what it released that is kept,
because an exchange outlasts its reading.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.storage.journal.records import (
    Kind,
    decode_marks,
    decode_marks_1,
    decode_number,
    decode_received,
    decode_run,
)
from gateway.storage.journal.segment_index import (
    FINISHED,
    KEPT,
    RECEIVED,
    RELEASED,
    Segment,
    SegmentIndex,
)

_FACTS = FINISHED | RECEIVED | RELEASED | KEPT
NUMBER_MAX = 1 << 62


class RecoveryIndex:
    """Flags the readings of a ledger that has all segments and none of their readings."""

    def __init__(self, segment_index: SegmentIndex) -> None:
        self.next_number = 0
        self.done_up_to = -1
        self.bounds: dict[int, int] = {}  # by serial, as MARKS say it
        self.released: set[int] = set()  # of exchanges whose reading's segment is gone
        self._segment_index = segment_index
        self._by_serial: dict[int, Segment] = {}

    def meet(self, segment: Segment) -> None:
        header = segment.header
        self.next_number = max(self.next_number, header.first, header.bound)
        self.done_up_to = max(self.done_up_to, header.done_below - 1)
        self._by_serial[header.serial] = segment

    def note(self, number: int) -> None:
        """There is, or was, a reading with this number."""
        if number >= self.next_number:
            self.next_number = _plausible(number) + 1

    def apply(self, by: Segment, kind: int, body: bytes) -> None:
        """What a mark in segment `by` says. Raises what decoding raises."""
        reader = _READERS.get(kind)
        if reader is not None:
            reader(self, by, body)

    # By kind

    def _session(self, session: int) -> None:
        """Before a segment is finished all that was written after it has been read, so the number
        that counts is known; each segment begins with it.
        """
        if session > self._segment_index.session:
            self._segment_index.session = _plausible(session)
            for segment in self._segment_index.segments:
                segment.forget_received()

    def _received(self, by: Segment, number: int, session: int) -> None:
        self._session(session)
        self._mark(by, number, RECEIVED if session == self._segment_index.session else 0)

    def _mark(self, by: Segment, number: int, flags: int) -> None:
        self.note(number)
        segment = self._segment_index.find(number)
        if segment is None:
            if flags & RELEASED:
                self.released.add(number)
            return
        segment.flag(number - segment.first, flags)
        if segment is not by:
            by.about.add(segment.serial)

    def _run(self, by: Segment, first: int, count: int, flags: int) -> None:
        last = first + count - 1
        self.note(last)
        for segment in self._segment_index.between(first, last):
            start, end = segment.first, segment.first + segment.readings_max
            for number in range(max(first, start), min(last + 1, end)):
                segment.flag(number - start, flags)
            if segment is not by:
                by.about.add(segment.serial)

    def _done_up_to(self, by: Segment, number: int) -> None:
        self.note(number)
        self.done_up_to = max(self.done_up_to, number)
        by.about |= {segment.serial for segment in self._segment_index.between(0, number)} - {
            by.serial
        }

    def _completions(
        self, by: Segment, serial: int, first: int, session: int, flags: bytes
    ) -> None:
        self._session(session)
        segment = self._by_serial.get(serial)
        if segment is None:
            return
        self.bounds[serial] = first + len(flags)
        by.about.add(serial)
        facts = _FACTS if session == self._segment_index.session else _FACTS & ~RECEIVED
        for index, flag in enumerate(flags):
            if flag & facts:
                segment.flag(index, flag & facts)


def _plausible(number: int) -> int:
    if number >= NUMBER_MAX:
        raise ValueError(number)
    return number


_READERS: dict[int, Callable[[RecoveryIndex, Segment, bytes], None]] = {
    Kind.DONE_UP_TO: lambda facts, by, body: facts._done_up_to(by, decode_number(body)),
    Kind.DONE_ONE: lambda facts, by, body: facts._run(by, *decode_run(body), FINISHED),
    Kind.KEPT: lambda facts, by, body: facts._run(by, *decode_run(body), KEPT),
    Kind.RELEASED: lambda facts, by, body: facts._mark(by, decode_number(body), RELEASED),
    Kind.RECEIVED: lambda facts, by, body: facts._received(by, *decode_received(body)),
    Kind.RECEIVED_1: lambda facts, by, body: facts._received(by, decode_number(body), 0),
    Kind.SESSION: lambda facts, by, body: facts._session(decode_number(body)),
    Kind.MARKS: lambda facts, by, body: facts._completions(by, *decode_marks(body)),
    Kind.MARKS_1: lambda facts, by, body: facts._completions(by, *decode_marks_1(body)),
}
