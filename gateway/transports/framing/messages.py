"""Whether octets are one whole MQTT-SN message, by its own length (5.2.1) and by its content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

from gateway.frames import Forwarded, Frame, MalformedFrame, Register, decode
from gateway.transports.framing.chatter import is_text

MESSAGE_OCTETS_MIN = 2

_FORWARDED = Forwarded.KIND
_FORWARDED_OCTETS_MIN = 3
_LONG_HEAD_OCTETS = 4
_KINDS = frozenset(frame_type.KIND for frame_type in get_args(Frame))

Octets = bytes | bytearray

_KIND = b"[" + re.escape(bytes(sorted(_KINDS))) + b"]"
_BEGINNING = re.compile(b"(?=[^\\x00\\x01]" + _KIND + b"|\\x01.." + _KIND + b")", re.DOTALL)


def declared_octets(octets: Octets, at: int = 0) -> int | None:
    """How long the message is that begins at this octet. 0: none begins so. None: too early."""
    left = len(octets) - at
    first = octets[at]
    if first == 0x01:
        return _declared_long(octets, at) if left >= _LONG_HEAD_OCTETS else None
    if first < MESSAGE_OCTETS_MIN:
        return 0
    if left < MESSAGE_OCTETS_MIN:
        return None
    kind = octets[at + 1]
    if kind == _FORWARDED:
        return _declared_forwarded(octets, at) if left > first else None
    return first if kind in _KINDS else 0


def beginnings(octets: bytes) -> Iterator[int]:
    """Where messages could begin, by length and type: one place in nine of random octets."""
    return (found.start() for found in _BEGINNING.finditer(octets))


def is_whole(octets: bytes) -> bool:
    """Whether the length of these is their own, whatever they say; `octets` are at least two.

    True as well for Paho's C library, which forgets two octets of a long message (frames/codec.py).
    """
    if _is_forwarded(octets):
        inner = octets[octets[0] :]
        is_inner = len(inner) >= MESSAGE_OCTETS_MIN and not _is_forwarded(inner)
        return octets[0] >= _FORWARDED_OCTETS_MIN and is_inner and is_whole(inner)
    size, first = len(octets), octets[0]
    if first != 0x01 or size < _LONG_HEAD_OCTETS:
        return first == size
    return size - (octets[1] << 8 | octets[2]) in (0, 2)


def is_message(octets: bytes) -> bool:
    """Whether these are one message and nothing else, as far as its layout can tell.

    CR and LF, with which consoles begin, are also the length and type of a REGISTER. A node's has
    topic id 0 (5.4.10), so one that can be printed from end to end was printed.
    """
    if len(octets) < MESSAGE_OCTETS_MIN or not is_whole(octets):
        return False
    if octets[1] == Register.KIND and is_text(octets):
        return False
    try:
        decode(octets)
    except MalformedFrame:
        return False
    return True


def _declared_long(octets: Octets, at: int) -> int:
    length = octets[at + 1] << 8 | octets[at + 2]
    kind = octets[at + 3]
    is_possible = length >= _LONG_HEAD_OCTETS and kind in _KINDS and kind != _FORWARDED
    return length if is_possible else 0


def _declared_forwarded(octets: Octets, at: int) -> int | None:
    """5.5: the outer length leaves out the message inside, which is no forwarder's."""
    inner_at = at + octets[at]
    if octets[at] < _FORWARDED_OCTETS_MIN or _is_forwarded(octets[inner_at : inner_at + 2]):
        return 0
    inner = declared_octets(octets, inner_at)
    return inner if not inner else octets[at] + inner


def _is_forwarded(octets: Octets) -> bool:
    return octets[1:2] == b"\xfe" and octets[0] != 0x01
