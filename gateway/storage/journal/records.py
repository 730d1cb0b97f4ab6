"""Records: bytes <-> values, and how to find the next good one behind a bad one.

```
checksum u32 | length of the body u24 | kind u8 | body
```
The checksum covers all behind it, from the segment's salt on (checksums.py). The highest bit of
`kind` says that everything before this record was durable when it was written: what is bad before
such a record was damaged later; what is bad elsewhere may be a write that a crash cut short.

Marks (everything but PUBLISH and BOOT) are facts, true from then on; so their order does not
matter, and one that was written twice, or by a group that failed, does no harm. What the broker has
received it may lose with its session. So RECEIVED names one, by a number that CONNECT raises: it
counts while that number is the highest one that any record knows.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.storage.journal.checksums import Extend


class Kind(IntEnum):
    PUBLISH = 1  # a reading
    RELEASED = 2  # its sensor has released the message id of this QoS 2 reading (PUBREL)
    RECEIVED_1 = 3  # as RECEIVED, in session 0; format 1 wrote it
    DONE_UP_TO = 4  # this reading and all before it are finished
    DONE_ONE = 5  # this reading and so many after it are finished
    EXCHANGE = 6  # a QoS 2 message id not yet released, whose reading's segment goes away
    MARKS_1 = 7  # as MARKS, in session 0; format 1 wrote it
    BOOT = 8  # from here on `received_at` is of this boot of the machine
    FILLER = 9  # covers bytes that a crash cut short
    RECEIVED = 10  # the broker has received this QoS 2 reading (PUBREC) in this session
    SESSION = 11  # CONNECT: which session the broker has is not known, so it counts as another
    MARKS = 12  # all marks of one older segment, received ones in this session; their records go
    KEPT = 13  # the broker has taken this reading and so many after it, and they stay


DURABLE_BEFORE = 0x80

HEAD_BYTES = 8
# A payload and a topic of 64 KiB each, and what comes before them, fit; that garbage seldom looks
# like a length this small makes the search for the next good record fast.
BODY_BYTES_MAX = (3 << 16) - 1
_HEAD = struct.Struct(">II")
_NUMBER = struct.Struct(">Q")
_RUN = struct.Struct(">QI")
_EXCHANGE = struct.Struct(">QIH")
_RECEIVED = struct.Struct(">QQ")
_MARKS_1 = struct.Struct(">QQ")
_MARKS = struct.Struct(">QQQ")

# What a reading's body begins with: its number less the segment's first (24 bits) and its flags;
# then in pairs sequence + 1 and topic id, unix_ms and packet id, received_at in ms and message id;
# then epoch, length of the client id and length of the topic.
_FRONT = struct.Struct(">I")
_READING = struct.Struct(">QQQIBH")
_KEYS = struct.Struct(">8xIQQQIBH")
# Names of their own for what each record needs: to look for them takes longer than they do.
_pack_reading = _READING.pack
_FRONT_BYTES = _FRONT.size
_PUBLISH = int(Kind.PUBLISH)
FRAME_BYTES = HEAD_BYTES + _FRONT_BYTES  # around what `reading_body` returns
READING_BYTES_MIN = HEAD_BYTES + _FRONT_BYTES + _READING.size

_QOS = 0x03
_RETAIN = 0x04
_PARKED = 0x08
# Of what is stored long after it came: `unix_ms` is of when it came, `received_at` of when it was
# stored. Older releases do not look at it.
_STAMPED_BEFORE = 0x10
_LOW_48 = (1 << 48) - 1

# Length and kind as a record may have them.
_MAYBE = re.compile(rb"(?s)(?=[\x00-\x02]..[\x01-\x0d\x81-\x8d])")


@dataclass(slots=True)
class Found:
    """A valid record: from `offset` to `end` in its segment."""

    offset: int
    end: int
    kind: int
    is_durable_before: bool


@dataclass(slots=True)
class Gap:
    """Bytes between two valid records that are not valid."""

    offset: int
    end: int


# Encoding


def encode_record(kind: int, body: bytes, salt: int, extend: Extend) -> bytes:
    rest = (len(body) << 8 | kind).to_bytes(4, "big") + body
    return extend(salt, rest).to_bytes(4, "big") + rest


def reading_body(reading: Reading, machine_at: float) -> bytes:
    """All of a reading's body but its front, which depends on the segment; `machine_at`: when it
    came, by the monotonic clock of the machine.
    """
    client_id, topic = reading.client_id.encode(), reading.topic.encode()
    received_ms = int(machine_at * 1000)
    pairs = _pack_reading(
        (reading.sequence + 1) << 16 | reading.topic_id,
        reading.unix_ms << 16 | reading.packet_id,
        (received_ms & _LOW_48) << 16 | reading.message_id,
        reading.epoch,
        len(client_id),
        len(topic),
    )
    return b"%b%b%b%b" % (pairs, client_id, topic, reading.payload)


def qos_of(flags: int) -> int:
    return flags & _QOS


def is_queued(flags: int) -> bool:
    return bool(flags & _PARKED)


def is_stamp_of_another_time(flags: int) -> bool:
    return bool(flags & _STAMPED_BEFORE)


def reading_flags(reading: Reading, *, queued: bool) -> int:
    flags = reading.qos & _QOS | (_RETAIN if reading.retain else 0) | (_PARKED if queued else 0)
    return flags | _STAMPED_BEFORE if reading.machine_at < 0 else flags


def encode_reading(number: int, flags: int, body: bytes, salt: int, extend: Extend) -> bytes:
    """`number` is counted from the segment's first."""
    head, front = (len(body) + _FRONT_BYTES) << 8 | _PUBLISH, number << 8 | flags
    rest = (head << 32 | front).to_bytes(8, "big") + body
    return extend(salt, rest).to_bytes(4, "big") + rest


def with_durable_before(record: bytes, salt: int, extend: Extend) -> bytes:
    """The same record, saying that all before it is durable."""
    rest = record[4:7] + bytes((record[7] | DURABLE_BEFORE,)) + record[8:]
    return extend(salt, rest).to_bytes(4, "big") + rest


def number_body(number: int) -> bytes:
    """Of RELEASED, DONE_UP_TO and SESSION."""
    return number.to_bytes(8, "big")


def received_body(number: int, session: int) -> bytes:
    return _RECEIVED.pack(number, session)


def run_body(first: int, count: int) -> bytes:
    """Of DONE_ONE and KEPT."""
    return _RUN.pack(first, count)


def exchange_body(number: int, contents: int, message_id: int, client_id: ClientId) -> bytes:
    return _EXCHANGE.pack(number, contents, message_id) + client_id.encode()


def marks_body(serial: int, first: int, session: int, flags: bytes) -> bytes:
    return _MARKS.pack(serial, first, session) + zlib.compress(flags, 1)


# Decoding; of bodies that passed their checksum, so that lengths can be trusted


def decode_number(body: bytes) -> int:
    number: int = _NUMBER.unpack(body)[0]
    return number


def decode_received(body: bytes) -> tuple[int, int]:
    number, session = _RECEIVED.unpack(body)
    return number, session


def decode_run(body: bytes) -> tuple[int, int]:
    first, count = _RUN.unpack(body)
    return first, count


def decode_exchange(body: bytes) -> tuple[int, int, int, ClientId]:
    number, contents, message_id = _EXCHANGE.unpack_from(body)
    return number, contents, message_id, ClientId(body[_EXCHANGE.size :].decode())


def decode_marks(body: bytes) -> tuple[int, int, int, bytes]:
    serial, first, session = _MARKS.unpack_from(body)
    return serial, first, session, zlib.decompress(body[_MARKS.size :])


def decode_marks_1(body: bytes) -> tuple[int, int, int, bytes]:
    serial, first = _MARKS_1.unpack_from(body)
    return serial, first, 0, zlib.decompress(body[_MARKS_1.size :])


def decode_keys(octets: bytes, offset: int) -> tuple[int, int, int, int, int, int, bytes]:
    """Of the reading whose record is here, what recovery needs of all: number, counted from the
    segment's first, flags, message id, received_at in ms, unix_ms, packet id, client id.
    """
    front, _, unix_ms, received_ms, _, client_bytes, _ = _KEYS.unpack_from(octets, offset)
    start = offset + _KEYS.size
    return (
        front >> 8,
        front & 0xFF,
        received_ms & 0xFFFF,
        received_ms >> 16,
        unix_ms >> 16,
        unix_ms & 0xFFFF,
        octets[start : start + client_bytes],
    )


def decode_contents(octets: bytes, offset: int, end: int) -> int:
    """As `effects.contents_of` has it."""
    front, _, _, _, _, client_bytes, topic_bytes = _KEYS.unpack_from(octets, offset)
    start = offset + _KEYS.size + client_bytes
    payload_at = start + topic_bytes
    qos = bytes((front & _QOS,))
    return zlib.crc32(octets[payload_at:end] + qos, zlib.crc32(octets[start:payload_at]))


def decode_front(octets: bytes, offset: int) -> tuple[int, int]:
    """Number, counted from the segment's first, and flags of the reading whose record is here."""
    (front,) = _FRONT.unpack_from(octets, offset + HEAD_BYTES)
    return front >> 8, front & 0xFF


def decode_identity(octets: bytes, offset: int) -> tuple[int, int]:
    """Epoch and sequence of the reading whose record is here."""
    _, sequence, _, _, epoch, _, _ = _KEYS.unpack_from(octets, offset)
    return epoch, (sequence >> 16) - 1


def decode_reading(octets: bytes, offset: int, end: int) -> Reading:
    """The reading whose record is here; `record` is its number counted from the segment's first,
    `received_at` as it was written.
    """
    number, flags = decode_front(octets, offset)
    start = offset + HEAD_BYTES + _FRONT_BYTES
    pairs = _READING.unpack_from(octets, start)
    sequence, unix_ms, received_ms, epoch, client_bytes, topic_bytes = pairs
    start += _READING.size
    topic_at = start + client_bytes
    payload_at = topic_at + topic_bytes
    return Reading(
        client_id=ClientId(octets[start:topic_at].decode()),
        topic=octets[topic_at:payload_at].decode(),
        payload=octets[payload_at:end],
        qos=flags & _QOS,
        retain=bool(flags & _RETAIN),
        topic_id=sequence & 0xFFFF,
        message_id=received_ms & 0xFFFF,
        received_at=(received_ms >> 16) / 1000,
        sequence=(sequence >> 16) - 1,
        unix_ms=unix_ms >> 16,
        epoch=epoch,
        packet_id=unix_ms & 0xFFFF,
        record=number,
    )


def record_at(octets: bytes, offset: int, salt: int, extend: Extend) -> Found | None:
    if offset + HEAD_BYTES > len(octets):
        return None
    checksum, head = _HEAD.unpack_from(octets, offset)
    end = offset + HEAD_BYTES + (head >> 8)
    if end > len(octets) or not head or extend(salt, octets[offset + 4 : end]) != checksum:
        return None
    kind = head & 0xFF
    return Found(
        offset=offset,
        end=end,
        kind=kind & ~DURABLE_BEFORE,
        is_durable_before=bool(kind & DURABLE_BEFORE),
    )


def records(octets: bytes, offset: int, salt: int, extend: Extend) -> Iterator[Found | Gap]:
    """Every valid record from `offset` on, and the gaps between them. What is behind the last
    valid record (zeros, what an earlier use of the file left, a torn write) is not told.
    """
    while True:
        found = record_at(octets, offset, salt, extend)
        if found is None:
            found = _next_record(octets, offset + 1, salt, extend)
            if found is None:
                return
            yield Gap(offset, found.offset)
        yield found
        offset = found.end


def _next_record(octets: bytes, offset: int, salt: int, extend: Extend) -> Found | None:
    for match in _MAYBE.finditer(octets, offset + 4):
        found = record_at(octets, match.start() - 4, salt, extend)
        if found is not None:
            return found
    return None
