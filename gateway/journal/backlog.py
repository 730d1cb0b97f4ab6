"""How far the parked readings were read back. The cursor never goes back: what is parked is always
written behind it.
"""

from __future__ import annotations

from gateway.effects import Forward
from gateway.journal.group import BacklogRequest, Stretch
from gateway.journal.ledger import Ledger
from gateway.journal.segment import HEADER_BYTES

STRETCHES_MAX = 64  # in one request


class Backlog:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._serial = 0  # of the segment that was read last, and how far
        self._offset = HEADER_BYTES

    def begin(self) -> list[Stretch]:
        stretches: list[Stretch] = []
        for segment in self._ledger.segments:
            if not segment.parked or segment.serial < self._serial:
                continue
            offset = self._offset if segment.serial == self._serial else HEADER_BYTES
            stretches.append(Stretch(segment, offset, segment.end, offset))
            if len(stretches) == STRETCHES_MAX:
                break
        return stretches

    def end(
        self, request: BacklogRequest, forwards: list[Forward]
    ) -> tuple[list[Forward], list[int]]:
        """The readings that go to the core, and the numbers of those that could not be read."""
        taken = [forward for forward in forwards if self._ledger.take(forward.record)]
        lost: list[int] = []
        for stretch in request.stretches:
            segment = stretch.segment
            if stretch.read_to == stretch.offset:
                break
            self._serial, self._offset = segment.serial, stretch.read_to
            if stretch.read_to >= stretch.end and segment.parked:
                wanted = filter(segment.is_wanted, range(len(segment.flags)))
                lost += [segment.first + index for index in wanted]
        return taken, lost
