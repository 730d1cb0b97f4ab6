"""Variable byte integers (MQTT 5, 1.5.5): lengths of packets and of their properties."""

from __future__ import annotations

_BITS_MAX = 28
_MORE = 0x80


class LengthError(Exception):
    """A length that is none, or that runs out of what it is in."""


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
