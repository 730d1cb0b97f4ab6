"""What MQTT 5 does not allow in a packet from the broker: repaired before the codec package reads
it.

Properties (2.2.2 and each packet's table). The codec package refuses the whole packet for one of
them, and a broker that sends one sends it with every packet. What they say is not needed to
understand a packet, so they are left out:

- one that may not be in this packet, or that is there a second time (the first one counts);
- one whose value is none: zero where zero is not allowed, a flag that is neither 0 nor 1, text that
  is not UTF-8. Of a Reason String and a Server Reference what can be read stays;
- a Topic Alias beside a topic name: we allow no aliases, and the name says all;
- a length or a Subscription Identifier in more bytes than it needs is rewritten;
- one that is not known, and all that follow it: its length is not known either.

A length that runs out of its packet or its section is not repaired: then it is not clear what the
rest is.

Reason codes that MQTT 5 does not list for a packet. mochi-mqtt acknowledges QoS 1 with 0x01.
Whatever is below 0x80 is success (2.4), anything else a failure: a code that is not known must not
cost the connection, and what waits in it.
"""

from __future__ import annotations

from enum import Enum

CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 2, 3, 4, 5, 6, 7
SUBACK, UNSUBACK, DISCONNECT = 9, 11, 14
_ACKNOWLEDGEMENTS = (PUBACK, PUBREC, PUBREL, PUBCOMP)
NOTES_MAX = 8  # of one packet
_BITS_MAX = 28
_MORE = 0x80

UNKNOWN = "is not known"
MISPLACED = "may not be in this packet"
REPEATED = "is there twice"
ALIAS = "was not allowed"
NO_FLAG = "is neither 0 nor 1"
ZERO = "is 0"
NO_TEXT = "is not UTF-8"
LONG_LENGTH = "a length in more bytes than it needs"

REASON_STRING, SERVER_REFERENCE, USER_PROPERTY = 0x1F, 0x1C, 0x26
SUBSCRIPTION_IDENTIFIER, TOPIC_ALIAS = 0x0B, 0x23


class Kind(Enum):
    """How a value is written (2.2.2.2)."""

    FLAG = "flag"
    TWO = "two bytes"
    FOUR = "four bytes"
    VARINT = "variable byte integer"
    TEXT = "text"
    BINARY = "binary"
    PAIR = "two texts"


_KINDS: dict[int, Kind] = {
    0x01: Kind.FLAG,
    0x02: Kind.FOUR,
    0x03: Kind.TEXT,
    0x08: Kind.TEXT,
    0x09: Kind.BINARY,
    SUBSCRIPTION_IDENTIFIER: Kind.VARINT,
    0x11: Kind.FOUR,
    0x12: Kind.TEXT,
    0x13: Kind.TWO,
    0x15: Kind.TEXT,
    0x16: Kind.BINARY,
    0x17: Kind.FLAG,
    0x18: Kind.FOUR,
    0x19: Kind.FLAG,
    0x1A: Kind.TEXT,
    SERVER_REFERENCE: Kind.TEXT,
    REASON_STRING: Kind.TEXT,
    0x21: Kind.TWO,
    0x22: Kind.TWO,
    TOPIC_ALIAS: Kind.TWO,
    0x24: Kind.FLAG,  # Maximum QoS: 0 or 1
    0x25: Kind.FLAG,
    USER_PROPERTY: Kind.PAIR,
    0x27: Kind.FOUR,
    0x28: Kind.FLAG,
    0x29: Kind.FLAG,
    0x2A: Kind.FLAG,
}
_SIZES = {Kind.FLAG: 1, Kind.TWO: 2, Kind.FOUR: 4}
_NOT_ZERO = frozenset({SUBSCRIPTION_IDENTIFIER, 0x21, TOPIC_ALIAS, 0x27})

_OF_ACKNOWLEDGEMENTS = frozenset({REASON_STRING, USER_PROPERTY})
_ALLOWED: dict[int, frozenset[int]] = {
    CONNACK: frozenset(
        {0x11, 0x12, 0x13, 0x15, 0x16, 0x1A, 0x1C, 0x1F, 0x21, 0x22, *range(0x24, 0x2B)}
    ),
    PUBLISH: frozenset({0x01, 0x02, 0x03, 0x08, 0x09, 0x0B, 0x23, 0x26}),
    **dict.fromkeys((*_ACKNOWLEDGEMENTS, SUBACK, UNSUBACK), _OF_ACKNOWLEDGEMENTS),
    DISCONNECT: frozenset({0x11, SERVER_REFERENCE, REASON_STRING, USER_PROPERTY}),
}
FAILURE = 0x80  # "unspecified error", which each packet but PUBREL and PUBCOMP knows
NO_SUCH_ID = 0x92

# Reason codes that the codec takes (MQTT 5, 2.4 and the tables of each packet).
_ACKNOWLEDGED = frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99})
_KNOWN: dict[int, frozenset[int]] = {
    CONNACK: frozenset({0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F}),
    PUBACK: _ACKNOWLEDGED,
    PUBREC: _ACKNOWLEDGED,
    PUBREL: frozenset({0x00, NO_SUCH_ID}),
    PUBCOMP: frozenset({0x00, NO_SUCH_ID}),
    SUBACK: frozenset({0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}),
    UNSUBACK: frozenset({0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}),
    DISCONNECT: frozenset(
        {0x00, 0x04, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)}
    ),
}


class LengthError(Exception):
    """A length that is none, or that runs out of what it is in."""


# Properties


def may_have_bad_text(packet: bytes) -> bool:
    """Whether its properties have anything but ASCII. False where they cannot be found."""
    try:
        _, start, end = _section(packet)
    except LengthError:
        return False
    return not packet[start:end].isascii()


def with_allowed_properties(packet: bytes) -> tuple[bytes, list[str]]:
    """The packet without the properties that are left out, and what they were; the packet as it is
    if there are none, or if it cannot be read.
    """
    try:
        length_at, start, end = _section(packet)
        body_at, _ = read_varint(packet, 1, len(packet))
        kept, notes = _allowed(packet[start:end], packet[0] >> 4, has_topic=_has_topic(packet))
    except LengthError:
        return packet, []
    body = packet[body_at:length_at] + varint(len(kept)) + kept + packet[end:]
    changed = packet[:1] + varint(len(body)) + body
    if changed != packet and not notes:
        notes.append(LONG_LENGTH)
    return changed, notes


def _section(packet: bytes) -> tuple[int, int, int]:
    """Where the length of the properties is, where they begin and where they end."""
    size, kind = len(packet), packet[0] >> 4
    at, length = read_varint(packet, 1, size)
    if at + length != size or kind not in _ALLOWED:
        raise LengthError
    if kind == PUBLISH:
        at = _text_end(packet, at, size)
        at += 2 if packet[0] & 6 else 0
    elif kind in _ACKNOWLEDGEMENTS:
        at += 3
    elif kind == DISCONNECT:
        at += 1
    else:
        at += 2
    start, length = read_varint(packet, at, size)
    if start + length > size:
        raise LengthError
    return at, start, start + length


def _has_topic(packet: bytes) -> bool:
    at, _ = read_varint(packet, 1, len(packet))
    return packet[at : at + 2] != b"\x00\x00"


def _allowed(section: bytes, packet_kind: int, *, has_topic: bool) -> tuple[bytes, list[str]]:
    kept: list[bytes] = []
    notes: list[str] = []
    seen: set[int] = set()
    at, size = 0, len(section)
    while at < size:
        value_at, name = read_varint(section, at, size)
        kind = _KINDS.get(name)
        if kind is None:
            _note(notes, f"{name:#04x} {UNKNOWN}")
            break
        at = _value_end(section, value_at, size, kind)
        value = section[value_at:at]
        if name not in _ALLOWED[packet_kind]:
            fault = MISPLACED
        elif name in seen and not _may_repeat(name, packet_kind):
            fault = REPEATED
        elif name == TOPIC_ALIAS and has_topic:
            fault = ALIAS
        else:
            fault = _fault_in(value, name, kind)
        if not fault or (fault == NO_TEXT and name in (REASON_STRING, SERVER_REFERENCE)):
            seen.add(name)
            kept.append(bytes((name,)) + _rewritten(value, kind, is_text=not fault))
        if fault:
            _note(notes, f"{name:#04x} {fault}")
    return b"".join(kept), notes


def _may_repeat(name: int, packet_kind: int) -> bool:
    return name == USER_PROPERTY or (name == SUBSCRIPTION_IDENTIFIER and packet_kind == PUBLISH)


def _note(notes: list[str], note: str) -> None:
    if note not in notes and len(notes) < NOTES_MAX:
        notes.append(note)


def _fault_in(value: bytes, name: int, kind: Kind) -> str:
    """Why the value is none; empty if it is one."""
    if kind is Kind.FLAG and value[0] > 1:
        return NO_FLAG
    if name in _NOT_ZERO and _is_zero(value, kind):
        return ZERO
    if kind is Kind.TEXT and not _is_utf8(value[2:]):
        return NO_TEXT
    if kind is Kind.PAIR:
        middle = _text_end(value, 0, len(value))
        if not (_is_utf8(value[2:middle]) and _is_utf8(value[middle + 2 :])):
            return NO_TEXT
    return ""


def _is_zero(value: bytes, kind: Kind) -> bool:
    return not (read_varint(value, 0, len(value))[1] if kind is Kind.VARINT else any(value))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _rewritten(value: bytes, kind: Kind, *, is_text: bool) -> bytes:
    """A number in as few bytes as it needs, and a text with a question mark for what is none."""
    if kind is Kind.VARINT:
        return varint(read_varint(value, 0, len(value))[1])
    if is_text:
        return value
    text = value[2:].decode(errors="replace").replace("\ufffd", "?").encode()
    return len(text).to_bytes(2, "big") + text


def _value_end(section: bytes, at: int, size: int, kind: Kind) -> int:
    if kind is Kind.VARINT:
        return read_varint(section, at, size)[0]
    if kind is Kind.PAIR:
        return _text_end(section, _text_end(section, at, size), size)
    if kind in (Kind.TEXT, Kind.BINARY):
        return _text_end(section, at, size)
    end = at + _SIZES[kind]
    if end > size:
        raise LengthError
    return end


def _text_end(data: bytes, at: int, size: int) -> int:
    end = at + 2 + int.from_bytes(data[at : at + 2], "big")
    if at + 2 > size or end > size:
        raise LengthError
    return end


# Reason codes


def with_known_codes(packet: bytes) -> tuple[bytes, list[int]]:
    """The packet with codes that the codec takes, and the codes as they came; none if it has none
    in its place, or cannot be read.
    """
    kind = packet[0] >> 4
    try:
        places = _places(packet, kind)
    except LengthError:
        return packet, []
    codes = [packet[at] for at in places]
    known = _KNOWN.get(kind, frozenset())
    changed = bytearray(packet)
    for at, code in zip(places, codes, strict=True):
        if code not in known:
            changed[at] = _instead_of(code, kind)
    return bytes(changed), codes


def _places(packet: bytes, kind: int) -> range:
    size = len(packet)
    body, _ = read_varint(packet, 1, size)
    if kind == CONNACK:
        return range(body + 1, min(body + 2, size))
    if kind in (PUBACK, PUBREC, PUBREL, PUBCOMP):
        return range(body + 2, min(body + 3, size))
    if kind == DISCONNECT:
        return range(body, min(body + 1, size))
    if kind in (SUBACK, UNSUBACK):
        after, properties = read_varint(packet, body + 2, size)
        return range(min(after + properties, size), size)
    return range(0)


def _instead_of(code: int, kind: int) -> int:
    if code >= FAILURE:
        return NO_SUCH_ID if kind in (PUBREL, PUBCOMP) else FAILURE
    return min(code, 2) if kind == SUBACK else 0


# Variable byte integers (1.5.5): lengths of packets and of their properties


def varint(value: int) -> bytes:
    """As the packet has it; `value` is at most 268,435,455."""
    encoded = bytearray()
    while value >= _MORE:
        encoded.append(value & 0x7F | _MORE)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the number ends that begins at `at`, and its value. Raises LengthError."""
    value = 0
    for shift in range(0, _BITS_MAX, 7):
        if at >= end:
            raise LengthError
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return at, value
    raise LengthError
