"""The layout of the protection envelope (MQTT-SN 2.0 draft, 3.17): what stands where.

    length(1 or 3) FF flags scheme sender(8) random(4) material(0/2/4/12) counter(0/2/4) packet tag

The length covers all of it. The flags say how long tag, material and counter are. What the tag is
made from, and whether the packet is encrypted, is the scheme's (schemes.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.addresses import SENDER_ID_BYTES
from gateway.frames import ENVELOPE_KIND, MalformedFrame, kind_of

RANDOM_BYTES = 4
HMAC_SHA256 = 0x00
AES_CCM_64 = 0x40  # with a key of 128 bits
AES_CCM_128 = 0x43
SCHEMES = {"hmac-sha256": HMAC_SHA256, "aes-ccm-64": AES_CCM_64, "aes-ccm-128": AES_CCM_128}

_MATERIAL_BYTES = (0, 2, 4, 12)
_COUNTER_BYTES = (0, 2, 4)
# Bytes of the tag of each scheme of the draft, as it is called nominal there.
_NOMINAL = {
    **dict.fromkeys((0x00, 0x01), 32),
    **dict.fromkeys((0x02, 0x03, 0x04), 16),
    **dict.fromkeys((0x40, 0x41, 0x42), 8),
    **dict.fromkeys(range(0x43, 0x4A), 16),
}
_AUTHENTICATION_ONLY = 0x40  # schemes below this one do not encrypt, and may have a shorter tag
_NOMINAL_CODE = 1
_TRUNCATED_CODE_MIN = 4
_TRUNCATED_UNIT_BYTES = 2
LONG_LENGTH = 0x01
_SHORT_MAX = 255
_LONG_MAX = 0xFFFF
#: All around the packet with a material and a counter of 4 bytes each, the tag left out.
HEAD_BYTES_MAX = 3 + 3 + SENDER_ID_BYTES + RANDOM_BYTES + 4 + 4
TAG_BYTES_MAX = 32
# Of an envelope with a material and a counter of 4 bytes each, and a length of one byte: all before
# the packet, where the fields are, and where among them the sender is.
SHORT_HEAD_BYTES = 24
FIELDS_AT, FIELDS_END = 1, 20
SENDER_AT, SENDER_END = 4, 12


@dataclass(slots=True)
class Envelope:
    """`head`: all bytes before the packet, which the tag covers. `sealed`: packet and tag."""

    head: bytes
    scheme: int
    sender_id: bytes
    random: bytes
    material: bytes
    counter: int | None
    tag_bytes: int
    sealed: bytes


def is_envelope(datagram: bytes) -> bool:
    """Whether its type says so; all else may be wrong with it."""
    return kind_of(datagram) == ENVELOPE_KIND


def parse(datagram: bytes) -> Envelope:
    """Of what `is_envelope`. Raises MalformedFrame, and nothing else."""
    size = len(datagram)
    at = 4 if datagram[0] == LONG_LENGTH else 2
    declared = datagram[0] if at == 2 else datagram[1] << 8 | datagram[2]
    if declared != size:
        raise MalformedFrame(f"envelope declares {declared} bytes, the datagram has {size}")
    if size < at + 2 + SENDER_ID_BYTES + RANDOM_BYTES:
        raise MalformedFrame(f"envelope ends in its head, after {size} bytes")
    flags, scheme = datagram[at], datagram[at + 1]
    counter_code = flags & 3
    if counter_code == 3:
        raise MalformedFrame("envelope with the reserved length of a counter")
    tag_bytes = _tag_bytes(flags >> 4, scheme)
    at += 2
    sender_id = datagram[at : at + SENDER_ID_BYTES]
    at += SENDER_ID_BYTES
    random = datagram[at : at + RANDOM_BYTES]
    at += RANDOM_BYTES
    material_end = at + _MATERIAL_BYTES[flags >> 2 & 3]
    head_end = material_end + _COUNTER_BYTES[counter_code]
    if size <= head_end + tag_bytes:
        raise MalformedFrame(f"envelope of {size} bytes has no packet and tag inside")
    counter = datagram[material_end:head_end]
    return Envelope(
        datagram[:head_end],
        scheme,
        sender_id,
        random,
        datagram[at:material_end],
        int.from_bytes(counter, "big") if counter else None,
        tag_bytes,
        datagram[head_end:],
    )


def head(
    scheme: int,
    tag_bytes: int,
    sender_id: bytes,
    random: bytes,
    material: bytes,
    counter: bytes,
    packet_bytes: int,
) -> bytes:
    """For a packet of so many bytes. Raises ValueError for what the layout has no code for."""
    fields = fields_of(scheme, tag_bytes, sender_id, random, material, len(counter)) + counter
    return with_length(fields, packet_bytes + tag_bytes)


def fields_of(
    scheme: int,
    tag_bytes: int,
    sender_id: bytes,
    random: bytes,
    material: bytes,
    counter_bytes: int,
) -> bytes:
    """A head without its length and counter: the same for all packets of a series."""
    flags = _tag_code(tag_bytes, scheme) << 4
    flags |= _MATERIAL_BYTES.index(len(material)) << 2 | _COUNTER_BYTES.index(counter_bytes)
    return bytes((ENVELOPE_KIND, flags, scheme)) + sender_id + random + material


def fields_in(head: bytes) -> bytes:
    """The fields of a head with a material and a counter of 4 bytes each."""
    return head[-4 - (FIELDS_END - FIELDS_AT) : -4]


def with_length(fields: bytes, behind: int) -> bytes:
    """A head of these fields, with so many bytes behind it. Raises ValueError for too many."""
    size = 1 + len(fields) + behind
    if size <= _SHORT_MAX:
        return size.to_bytes(1, "big") + fields
    size += 2
    if size > _LONG_MAX:
        raise ValueError(f"an envelope has at most {_LONG_MAX} bytes")
    return bytes((LONG_LENGTH, size >> 8, size & 0xFF)) + fields


def _tag_bytes(code: int, scheme: int) -> int:
    nominal = _NOMINAL.get(scheme)
    if nominal is None:
        raise MalformedFrame(f"envelope of the unknown scheme 0x{scheme:02x}")
    if code == _NOMINAL_CODE:
        return nominal
    size = code * _TRUNCATED_UNIT_BYTES
    if code < _TRUNCATED_CODE_MIN or scheme >= _AUTHENTICATION_ONLY or size > nominal:
        raise MalformedFrame(f"envelope whose tag has the length {code} for 0x{scheme:02x}")
    return size


def _tag_code(tag_bytes: int, scheme: int) -> int:
    code = _NOMINAL_CODE if tag_bytes == _NOMINAL[scheme] else tag_bytes // _TRUNCATED_UNIT_BYTES
    if _tag_bytes(code, scheme) != tag_bytes:
        raise ValueError(f"a tag of 0x{scheme:02x} has no {tag_bytes} bytes")
    return code
