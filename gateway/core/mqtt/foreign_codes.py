"""Reason codes that MQTT 5 does not list for a packet, which brokers send all the same.

mochi-mqtt acknowledges QoS 1 with 0x01. Whatever is below 0x80 is success (MQTT 5, 2.4), anything
else a failure: a code that is not known must not cost the connection, and what waits in it.
"""

from __future__ import annotations

from gateway.core.mqtt.varint import LengthError, read_varint

CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP = 2, 4, 5, 6, 7
SUBACK, UNSUBACK, DISCONNECT = 9, 11, 14
FAILURE = 0x80  # "unspecified error", which each packet but PUBREL and PUBCOMP knows
NO_SUCH_ID = 0x92

# What the codec takes (MQTT 5, 2.4 and the tables of each packet).
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
