"""What the segments of a previous run say.

Rule 1: from the newest segment to the oldest: marks are in a reading's own segment or in a newer
        one, so each segment is finished when it has been walked once.
Rule 2: every valid record counts, also behind one that is not. A bad record was damaged after it
        was written if something behind it proves that it was durable once: a record that says so,
        or, in all but the newest segment, a reading. Else a crash cut its write short, and nobody
        was told that it was stored.
Rule 3: a reading does not count whose number is at or above the `bound` of a newer segment.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from gateway.core.state_records import ClientId, Exchanges
from gateway.core.values import KeptRecords, Reading
from gateway.storage.journal.checksums import CHECKSUMS
from gateway.storage.journal.options import RECENT_PER_CLIENT_MAX
from gateway.storage.journal.reading import received_at, set_times
from gateway.storage.journal.records import (
    HEAD_BYTES,
    Found,
    Gap,
    Kind,
    decode_contents,
    decode_exchange,
    decode_identity,
    decode_keys,
    decode_reading,
    qos_of,
    records,
)
from gateway.storage.journal.recovered import Recovered, newest_packet_id
from gateway.storage.journal.recovery_index import RecoveryIndex
from gateway.storage.journal.segment import (
    HEADER_BYTES,
    NO_BOOT,
    SEGMENT_NAME,
    Header,
    decode_header,
    header_of_name,
)
from gateway.storage.journal.segment_index import (
    FINISHED,
    KEPT,
    PARKED,
    RECEIVED,
    RELEASED,
    TAKEN,
    Exchange,
    ExchangeKey,
    Segment,
    SegmentIndex,
)

NEVER = 1 << 62  # behind every offset

Keys = tuple[int, int, int, int, int, int, bytes]  # of records.decode_keys

# What a body may raise that passed its checksum by chance.
_MALFORMED = (struct.error, zlib.error, UnicodeDecodeError, ValueError)


@dataclass(slots=True)
class Clocks:
    now: float
    unix_ms_at_zero: float
    boot_id: bytes
    recent_s: float


@dataclass(slots=True)
class SegmentScan:
    """One segment as it was found. A reading: its record, its keys, whether it is of this boot."""

    segment: Segment
    octets: bytes
    bound: int
    is_same_boot: bool = False
    torn: list[Gap] = field(default_factory=list)
    damaged: list[Gap] = field(default_factory=list)
    readings: list[tuple[Found, Keys, bool]] = field(default_factory=list)
    guests: list[tuple[ExchangeKey, Exchange]] = field(default_factory=list)
    has_void: bool = False  # readings that do not count
    end: int = HEADER_BYTES


class Recovery:
    """Fills an empty ledger. `read(name, size)` gives a file's first bytes."""

    def __init__(
        self, segment_index: SegmentIndex, read: Callable[[str, int], bytes], clocks: Clocks
    ) -> None:
        self.segment_index = segment_index
        self.recovered = Recovered()
        self.facts = RecoveryIndex(segment_index)
        self.next_serial = 1
        # The newest segment, and those before it as far as nothing came into the ones behind.
        self.unproven: list[SegmentScan] = []
        self.damaged: dict[str, str] = {}  # what is wrong, by the segment's name
        self.unreadable: dict[str, int] = {}  # blocks, by the segment's name; the reader counts
        self.hopeless: list[str] = []  # names of segments of which nothing can be read
        self.superseded: list[int] = []  # QoS 2 readings that are released without a mark
        self._read = read
        self._clocks = clocks
        self._exchanges: dict[ExchangeKey, int] = {}  # met, released or not, and their number
        self._queued: dict[bytes, int] = {}
        self._recent: dict[ClientId, list[tuple[int, int, int, float]]] = {}

    def run(self, names: list[str], size_max: int) -> None:
        """Read all segments among these files."""
        self._meet(filter(SEGMENT_NAME.fullmatch, names), size_max)
        bound, follower = 1 << 64, None
        for segment in reversed(self.segment_index.segments):
            walk = self._walk(segment, self._read(segment.name, size_max), bound)
            self._settle(walk)
            self._judge(walk, follower)
            if not self.unproven or self.unproven[-1].end == HEADER_BYTES:
                self.unproven.append(walk)
            bound, follower = min(bound, segment.header.bound), segment.header
        self._conclude()

    def _meet(self, names: Iterable[str], size_max: int) -> None:
        met = [(header, name) for name in names if (header := self._header(name, size_max))]
        for header, name in sorted(met, key=lambda item: (item[0].first, item[0].serial)):
            self.next_serial = max(self.next_serial, header.serial + 1)
            segment = Segment(header, name, size_max)
            self.segment_index.append(segment)
            self.facts.meet(segment)

    def _header(self, name: str, size_max: int) -> Header | None:
        header = decode_header(self._read(name, HEADER_BYTES))
        if header is not None:
            return header
        octets = self._read(name, size_max)
        for algorithm, extend in CHECKSUMS.items():
            guess = header_of_name(name, algorithm)
            if guess and any(records(octets, HEADER_BYTES, guess.salt, extend)):
                self.damaged[name] = "its header is damaged"
                return guess
        self.hopeless.append(name)
        self.damaged[name] = "nothing in it can be read"
        return None

    # One segment

    def _walk(self, segment: Segment, octets: bytes, bound: int) -> SegmentScan:
        header = segment.header
        walk = SegmentScan(segment, octets, min(bound, self.facts.bounds.get(header.serial, bound)))
        segment.size = len(octets)
        walk.is_same_boot = self._is_same_boot(header.boot_id)
        segment.same_boot_from = 0 if walk.is_same_boot else NEVER
        for item in records(octets, HEADER_BYTES, header.salt, CHECKSUMS[header.algorithm]):
            if isinstance(item, Gap):
                walk.torn.append(item)
                continue
            walk.end = item.end
            try:
                proves = self._apply(walk, item) and bool(self.unproven)
            except _MALFORMED:
                walk.damaged.append(Gap(item.offset, item.end))
                continue
            if walk.torn and (proves or item.is_durable_before):
                walk.damaged += walk.torn
                walk.torn.clear()
        segment.end = walk.end
        return walk

    def _apply(self, walk: SegmentScan, found: Found) -> bool:
        """Whether it is a reading that counts."""
        self.recovered.report.records += 1
        if found.kind == Kind.PUBLISH:
            keys = decode_keys(walk.octets, found.offset)
            number = walk.segment.first + keys[0]
            self.facts.note(number)
            if number >= walk.bound:
                walk.has_void = True
                return False
            walk.readings.append((found, keys, walk.is_same_boot))
            return True
        body = walk.octets[found.offset + HEAD_BYTES : found.end]
        match found.kind:
            case Kind.EXCHANGE:
                number, contents, message_id, client_id = decode_exchange(body)
                self.facts.note(number)
                walk.guests.append(((client_id, message_id), Exchange(number, contents)))
            case Kind.BOOT:
                walk.is_same_boot = self._is_same_boot(body)
                walk.segment.same_boot_from = found.end if walk.is_same_boot else NEVER
            case _:
                self.facts.apply(walk.segment, found.kind, body)
        return False

    def _is_same_boot(self, boot_id: bytes) -> bool:
        return boot_id == self._clocks.boot_id != NO_BOOT

    # What it comes to

    def _settle(self, walk: SegmentScan) -> None:
        """All marks of this segment's readings are known now."""
        segment = walk.segment
        if not self.recovered.last_packet_id:
            self.recovered.last_packet_id = newest_packet_id(
                keys[5] for _, keys, _ in walk.readings
            )
        if walk.readings:
            epoch, _ = decode_identity(walk.octets, walk.readings[-1][0].offset)
            self.recovered.newest_epoch = max(self.recovered.newest_epoch, epoch)
        newest: dict[ExchangeKey, tuple[int, Found]] = {}  # QoS 2, by message id
        received: list[Reading] = []
        kept: list[KeptRecords] = []
        for found, keys, is_same_boot in walk.readings:
            index, written_flags, message_id, received_ms, unix_ms, _, client = keys
            came_at = self._came_at(received_ms / 1000, unix_ms, is_same_boot)
            flags = self._flags_of(segment, index, qos_of(written_flags))
            segment.add(index, flags, came_at)
            if flags & (PARKED | FINISHED) == PARKED:
                self._queued[client] = self._queued.get(client, 0) + 1
            elif flags & (KEPT | FINISHED) == KEPT:
                _keep(kept, decode_identity(walk.octets, found.offset), segment.first + index)
            elif not flags & FINISHED:
                received.append(self._reading(walk, found, written_flags, is_same_boot))
            if qos_of(written_flags) == 2 and message_id:  # a will has none
                key = ClientId(client.decode()), message_id
                if key in newest:
                    self._supersede(segment, newest[key][0])
                newest[key] = index, found
        del segment.flags[len(segment.times) :]
        self.recovered.received[:0] = received
        self.recovered.kept[:0] = kept
        self._settle_exchanges(walk, newest)
        self._settle_recent(walk)

    def _came_at(self, written: float, unix_ms: int, is_same_boot: bool) -> float:
        clocks = self._clocks
        now, at_zero = clocks.now, clocks.unix_ms_at_zero
        return received_at(written, unix_ms, now, at_zero, now, is_same_boot=is_same_boot)

    def _flags_of(self, segment: Segment, index: int, qos: int) -> int:
        flags = segment.flags[index] if index < len(segment.flags) else 0
        if segment.first + index <= self.facts.done_up_to:
            flags |= FINISHED
        # What the broker has goes to the core at once, all else by way of the backlog.
        has_it = flags & KEPT or (flags & RECEIVED and qos == 2)
        return flags | (TAKEN if has_it else PARKED)

    def _reading(self, walk: SegmentScan, found: Found, flags: int, is_same_boot: bool) -> Reading:
        reading = decode_reading(walk.octets, found.offset, found.end)
        reading.record += walk.segment.first
        now, at_zero = self._clocks.now, self._clocks.unix_ms_at_zero
        set_times(reading, flags, now, at_zero, now, is_same_boot=is_same_boot)
        return reading

    def _settle_exchanges(
        self, walk: SegmentScan, newest: dict[ExchangeKey, tuple[int, Found]]
    ) -> None:
        """A message id is that of its newest reading; met first, because the newest come first."""
        segment = walk.segment
        for key, (index, found) in newest.items():
            number = segment.first + index
            met = self._exchanges.setdefault(key, number)
            if met > number:
                self._supersede(segment, index)
            elif key not in self.segment_index.exchanges and not segment.flags[index] & RELEASED:
                contents = decode_contents(walk.octets, found.offset, found.end)
                exchange = Exchange(number, contents)
                self.segment_index.begin_exchange(segment, key, exchange)
        for key, exchange in sorted(walk.guests, key=lambda guest: -guest[1].number):
            self.segment_index.add_guest(exchange.number, segment)
            met = self._exchanges.setdefault(key, exchange.number)
            if met > exchange.number:
                self.superseded.append(exchange.number)
            elif not self._is_released(exchange.number):
                if key not in self.segment_index.exchanges:
                    self.segment_index.begin_exchange(segment, key, exchange)
                continue
            segment.released_guests.add(exchange.number)
            self._depend_on(segment)

    def _supersede(self, segment: Segment, index: int) -> None:
        """Its message id was used again, which released it; write that down."""
        if not segment.flags[index] & RELEASED:
            segment.flags[index] |= RELEASED
            self.superseded.append(segment.first + index)

    def _is_released(self, number: int) -> bool:
        home = self.segment_index.find(number)
        if home is None:
            return number in self.facts.released
        index = number - home.first
        return index < len(home.flags) and bool(home.flags[index] & RELEASED)

    def _depend_on(self, segment: Segment) -> None:
        """Every newer segment may have marks that are about this one."""
        place = self.segment_index.segments.index(segment)
        for newer in self.segment_index.segments[place + 1 :]:
            newer.about.add(segment.serial)

    def _settle_recent(self, walk: SegmentScan) -> None:
        segment, clocks = walk.segment, self._clocks
        if clocks.now - segment.newest_received_at >= clocks.recent_s:
            return
        for found, keys, is_same_boot in reversed(walk.readings):
            index, _, message_id, received_ms, unix_ms, _, client = keys
            age = clocks.now - self._came_at(received_ms / 1000, unix_ms, is_same_boot)
            recent = self._recent.setdefault(ClientId(client.decode()), [])
            if message_id and age < clocks.recent_s and len(recent) < RECENT_PER_CLIENT_MAX:
                contents = decode_contents(walk.octets, found.offset, found.end)
                recent.append((segment.first + index, message_id, contents, age))

    def _judge(self, walk: SegmentScan, follower: Header | None) -> None:
        """Was it damaged, or only cut short?"""
        segment, report = walk.segment, self.recovered.report
        report.torn_bytes += sum(gap.end - gap.offset for gap in walk.torn)
        what = [f"{gap.end - gap.offset} bytes at {gap.offset}" for gap in walk.damaged]
        # Also in the tail of the newest: what was there cannot be told from what a crash cut short.
        if blocks := self.unreadable.get(segment.name):
            what.append(f"{blocks} blocks of the disk")
        if follower is not None and follower.serial == segment.serial + 1:
            missing = follower.bound - segment.first - len(segment.times)
            if missing > 0:
                what.append(f"{missing} readings at its end")
        if what:
            self.damaged.setdefault(segment.name, ", ".join(what) + " cannot be read")
        if walk.has_void:
            self._depend_on(segment)

    def _conclude(self) -> None:
        recovered, segment_index = self.recovered, self.segment_index
        recovered.queued = {ClientId(client.decode()): n for client, n in self._queued.items()}
        recovered.exchanges = self._recent_and_unreleased()
        report = recovered.report
        report.segments = len(segment_index.segments)
        report.waiting = sum(each.unfinished - each.kept for each in segment_index.segments)
        report.damaged = [f"{name}: {what}" for name, what in sorted(self.damaged.items())]

    def _recent_and_unreleased(self) -> dict[ClientId, Exchanges]:
        unreleased: dict[ClientId, list[tuple[int, int, int]]] = {}
        for (client_id, message_id), home in self.segment_index.exchanges.items():
            exchange = home.exchanges[client_id, message_id]
            row = exchange.number, message_id, exchange.contents
            unreleased.setdefault(client_id, []).append(row)
        exchanges = {}
        for client_id in dict.fromkeys([*self._recent, *unreleased]):
            waiting = sorted(unreleased.get(client_id, []))
            numbers = {number for number, _, _ in waiting}
            recent = [kept for kept in self._recent.get(client_id, []) if kept[0] not in numbers]
            exchanges[client_id] = Exchanges(
                [(message_id, contents) for _, message_id, contents in waiting],
                [(message_id, contents, age) for _, message_id, contents, age in reversed(recent)],
            )
        return exchanges


def _keep(runs: list[KeptRecords], identity: tuple[int, int], number: int) -> None:
    """Put it to its neighbours."""
    epoch, sequence = identity
    if runs:
        last = runs[-1]
        end = last.epoch, last.first + last.count, last.record + last.count
        if end == (epoch, sequence, number):
            runs[-1] = replace(last, count=last.count + 1)
            return
    runs.append(KeptRecords(epoch=epoch, first=sequence, record=number, count=1))
