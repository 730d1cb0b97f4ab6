"""What the journal knows of its segments without looking: the loop's side, no I/O.

One byte of flags and one time for each reading of a living segment; that is 5 MB for a million.

Rule 1: a segment is drained when each of its readings is finished. It may be freed when, beside
        that, no other living segment depends on it: `exchanges` (QoS 2 message ids not released
        whose record is here) and `about` (older segments with marks that were recorded here).
        `restated` in freeing.py writes both again elsewhere.
Rule 2: marks are set here at once, whether they are on disk or not: they are facts. What the broker
        has received is one as long as it has the session in which it said so: `session` numbers it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from gateway.core.state_records import ClientId
from gateway.storage.journal.records import READING_BYTES_MIN
from gateway.storage.journal.segment import HEADER_BYTES, Header

PRESENT = 0x01
PARKED = 0x02
TAKEN = 0x04  # handed to the core, which has it in memory; not written
FINISHED = 0x08
RECEIVED = 0x10
RELEASED = 0x20
KEPT = 0x40  # the broker has taken it; it stays until it is ingested

SECONDS_LIMIT = 1 << 31  # of `Segment.times`

WANTED = PRESENT | PARKED  # of these four, exactly these two: to be read back
_WANTED_MASK = PRESENT | PARKED | TAKEN | FINISHED
DURABLE = bytes(flags & ~TAKEN for flags in range(256))
_NOT_RECEIVED = bytes(flags & ~RECEIVED for flags in range(256))
# Whether it waits for the broker.
_WAITING = bytes(flags & (PRESENT | FINISHED | KEPT) == PRESENT for flags in range(256))


@dataclass(slots=True)
class BegunSegment:
    """A segment that was begun. `has_carried`: marks of the one before it go into it once more."""

    header: Header
    size: int
    has_carried: bool


@dataclass(frozen=True, slots=True)
class Exchange:
    number: int
    contents: int


ExchangeKey = tuple[ClientId, int]


@dataclass(slots=True, eq=False)
class Segment:
    header: Header
    name: str
    size: int
    end: int = HEADER_BYTES  # of what is written
    flags: bytearray = field(default_factory=bytearray)
    times: array[int] = field(default_factory=lambda: array("i"))  # received, monotonic seconds
    unfinished: int = 0
    queued: int = 0  # of the unfinished: to be read back
    kept: int = 0  # of the unfinished: the broker has them
    head: int = 0  # no reading before this index is unfinished
    newest_received_at: float = 0.0
    same_boot_from: int = 0  # records from this offset on were written since the machine started
    exchanges: dict[ExchangeKey, Exchange] = field(default_factory=dict)
    guests: set[int] = field(default_factory=set)  # readings whose exchange was restated here
    released_guests: set[int] = field(default_factory=set)  # those of them released since
    about: set[int] = field(default_factory=set)  # serials
    has_landed: bool = True  # a group is durable in it
    is_suspect: bool = False  # a write or sync failed: never used again

    @property
    def serial(self) -> int:
        return self.header.serial

    @property
    def first(self) -> int:
        return self.header.first

    @property
    def held_bytes(self) -> int:
        """For unfinished readings."""
        return self.end if self.unfinished else 0

    @property
    def readings_max(self) -> int:
        return self.size // READING_BYTES_MIN

    def flag(self, index: int, flags: int) -> None:
        """Also for a reading that recovery has not met yet."""
        if index >= len(self.flags):
            self.flags.extend(bytes(index + 1 - len(self.flags)))
        self.flags[index] |= flags

    def add(self, index: int, flags: int, received_at: float) -> None:
        """A reading; indexes come in order."""
        times, held = self.times, self.flags
        if index > len(times):
            times.extend([0] * (index - len(times)))
        times.append(_seconds(received_at))
        if index == len(held):  # nearly always
            held.append(flags | PRESENT)
        else:
            self.flag(index, flags | PRESENT)
        if received_at > self.newest_received_at:
            self.newest_received_at = received_at
        if not flags & FINISHED:
            self.unfinished += 1
            if flags & KEPT:
                self.kept += 1
            elif flags & PARKED:
                self.queued += 1

    def is_wanted(self, index: int) -> bool:
        return index < len(self.flags) and self.flags[index] & _WANTED_MASK == WANTED

    def take(self, index: int) -> bool:
        """As `SegmentIndex.take`."""
        if not self.is_wanted(index):
            return False
        self.flags[index] |= TAKEN
        self.queued -= 1
        return True

    def keep(self, index: int) -> bool:
        """Whether it waited for the broker."""
        flags = self.flags[index] if index < len(self.flags) else 0
        if flags & (PRESENT | FINISHED | KEPT) != PRESENT:
            return False
        self.flags[index] = flags | KEPT
        self.kept += 1
        return True

    def finish(self, index: int, end: int) -> list[int]:
        """The numbers of those that were unfinished."""
        held, first = self.flags, self.first
        finished: list[int] = []
        for place in range(index, min(end, len(held))):
            flags = held[place]
            if flags & (PRESENT | FINISHED) != PRESENT:
                continue
            held[place] = flags | FINISHED
            finished.append(first + place)
            if flags & KEPT:
                self.kept -= 1
            elif flags & (PARKED | TAKEN) == PARKED:
                self.queued -= 1
        self.unfinished -= len(finished)
        return finished

    def waiting_since(self) -> float:
        """When the oldest came that the broker has not taken; there is one."""
        return float(self.times[self.flags.translate(_WAITING).index(1)])

    def first_unfinished(self) -> int | None:
        """Its index; None in a drained segment."""
        if not self.unfinished:
            return None
        flags, head = self.flags, self.head
        while flags[head] & (PRESENT | FINISHED) != PRESENT:
            head += 1
        self.head = head
        return head

    def forget_received(self) -> None:
        self.flags[:] = self.flags.translate(_NOT_RECEIVED)

    def durable_flags(self) -> bytes:
        return bytes(self.flags.translate(DURABLE))


class SegmentIndex:
    """All segments, the oldest first; the last one is written to while it is `current`."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.current: Segment | None = None
        self.exchanges: dict[ExchangeKey, Segment] = {}
        self.session = 0  # of the broker, counted by CONNECTs; RECEIVED is meant in it
        self._firsts: list[int] = []
        self._guests: dict[int, list[Segment]] = {}  # readings with restated exchanges, and where

    def append(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._firsts.append(segment.first)

    def begin(self, started: list[BegunSegment], abandoned: set[int]) -> None:
        """Segments that a group began, and those, by serial, that it had to give up."""
        for segment in self.segments:
            segment.is_suspect = segment.is_suspect or segment.serial in abandoned
        for new in started:
            segment = Segment(new.header, new.header.name, new.size, has_landed=False)
            # The header's bound tells what does not count in those that were given up.
            segment.about = {other.serial for other in self.segments if other.is_suspect}
            if new.has_carried and self.segments:
                former = self.segments[-1]
                segment.about |= former.about | {former.serial}
            segment.is_suspect = new.header.serial in abandoned
            self.append(segment)

    def remove(self, segment: Segment) -> None:
        place = self.segments.index(segment)
        del self.segments[place]
        del self._firsts[place]
        for number in segment.guests:
            self._guests[number].remove(segment)
            if not self._guests[number]:
                del self._guests[number]

    def find(self, number: int) -> Segment | None:
        """The segment that may have this reading."""
        place = bisect_right(self._firsts, number) - 1
        if place < 0:
            return None
        segment = self.segments[place]
        return segment if number - self._firsts[place] < segment.readings_max else None

    def finish(self, first: int, end: int) -> list[int]:
        """Those of these numbers that were unfinished."""
        finished: list[int] = []
        for segment in self.between(first, end - 1):
            finished += segment.finish(max(first - segment.first, 0), end - segment.first)
        return finished

    def take(self, number: int) -> bool:
        """It goes to the core, if it is still to be read back."""
        segment = self.find(number)
        return segment is not None and segment.take(number - segment.first)

    def between(self, first: int, last: int) -> list[Segment]:
        """The segments whose readings may be among these numbers."""
        start = max(bisect_right(self._firsts, first) - 1, 0)
        return self.segments[start : bisect_right(self._firsts, last)]

    def by_serial(self) -> dict[int, Segment]:
        return {segment.serial: segment for segment in self.segments}

    def first_unfinished(self) -> tuple[Segment, int] | None:
        for segment in self.segments:
            index = segment.first_unfinished()
            if index is not None:
                return segment, index
        return None

    def first_waiting_since(self) -> float | None:
        """When the oldest came that the broker has not taken."""
        for segment in self.segments:
            if segment.unfinished > segment.kept:
                return segment.waiting_since()
        return None

    # Exchanges

    def begin_exchange(self, segment: Segment, key: ExchangeKey, exchange: Exchange) -> int | None:
        """The number of an older reading under the same message id, which this one replaces."""
        pair: Any = key  # one object; compiled, a pair of two types is made one at each use
        replaced = self.end_exchange(key) if pair in self.exchanges else None
        self.exchanges[pair] = segment
        segment.exchanges[pair] = exchange
        return replaced

    def end_exchange(self, key: ExchangeKey) -> int | None:
        """The number of the reading whose message id is released."""
        pair: Any = key
        home = self.exchanges.get(pair)
        if home is None:
            return None
        del self.exchanges[pair]  # compiled, `pop` is a call by name
        number = home.exchanges[pair].number
        del home.exchanges[pair]
        index = number - home.first
        if 0 <= index < len(home.flags):  # nearly always, unless it was restated
            home.flags[index] |= RELEASED
        else:
            self.flag(number, RELEASED)
        if self._guests:  # in every segment that says it is open: one that was to go may be there
            for segment in self._guests.get(number, ()):
                segment.released_guests.add(number)
        return number

    def move_exchange(self, key: ExchangeKey, exchange: Exchange, home: Segment) -> None:
        """It was restated in another segment, unless it was released meanwhile."""
        self.add_guest(exchange.number, home)
        former = self.exchanges.get(key)
        if former is None or former.exchanges[key] != exchange:
            home.released_guests.add(exchange.number)
            return
        del former.exchanges[key]
        home.exchanges[key] = exchange
        self.exchanges[key] = home

    def may_have_moved(self, key: ExchangeKey, exchange: Exchange, serials: set[int]) -> None:
        """It was to be restated in these segments, where a write failed: they may say all the same
        that it is open.
        """
        home = self.exchanges.get(key)
        is_open = home is not None and home.exchanges[key] == exchange
        for segment in self.segments:
            if segment.serial in serials:
                self.add_guest(exchange.number, segment)
                if not is_open:
                    segment.released_guests.add(exchange.number)

    def add_guest(self, number: int, home: Segment) -> None:
        """The exchange of this reading stands in that segment."""
        if number not in home.guests:
            home.guests.add(number)
            self._guests.setdefault(number, []).append(home)

    # Marks

    def begin_session(self) -> int:
        """The broker may have another session from now on; returns its number."""
        self.session += 1
        for segment in self.segments:
            segment.forget_received()
        return self.session

    def flag(self, number: int, flags: int) -> None:
        segment = self.find(number)
        if segment is not None and number - segment.first < len(segment.flags):
            segment.flag(number - segment.first, flags)

    def note_marked_by(self, number: int, serials: set[int]) -> None:
        """Add those of the segments that a mark of this reading is about."""
        home = self.find(number)
        if home is not None:
            serials.add(home.header.serial)
        if self._guests:
            serials.update(segment.serial for segment in self._guests.get(number, ()))


def _seconds(received_at: float) -> int:
    seconds = int(received_at)
    return seconds if -SECONDS_LIMIT <= seconds < SECONDS_LIMIT else _nearest(seconds)


def _nearest(seconds: int) -> int:
    return SECONDS_LIMIT - 1 if seconds > 0 else -SECONDS_LIMIT
