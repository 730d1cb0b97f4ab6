"""Whether bytes are one whole MQTT-SN message, by its own length (5.2.1) and by its content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

from gateway.frames import Forwarded, Frame, MalformedFrame, Register, decode
from gateway.transports.framing.chatter import is_text

MESSAGE_BYTES_MIN = 2

_FORWARDED = Forwarded.KIND
_FORWARDED_BYTES_MIN = 3
_LONG_HEAD_BYTES = 4
_KINDS = frozenset(frame_type.KIND for frame_type in get_args(Frame))

BytesLike = bytes | bytearray

_KIND = b"[" + re.escape(bytes(sorted(_KINDS))) + b"]"
_BEGINNING = re.compile(b"(?=[^\\x00\\x01]" + _KIND + b"|\\x01.." + _KIND + b")", re.DOTALL)


def declared_length(piece: BytesLike, at: int = 0) -> int | None:
    """How long the message is that begins at this byte. 0: none begins so. None: too early."""
    left = len(piece) - at
    first = piece[at]
    if first == 0x01:
        return _declared_long(piece, at) if left >= _LONG_HEAD_BYTES else None
    if first < MESSAGE_BYTES_MIN:
        return 0
    if left < MESSAGE_BYTES_MIN:
        return None
    kind = piece[at + 1]
    if kind == _FORWARDED:
        return _declared_forwarded(piece, at) if left > first else None
    return first if kind in _KINDS else 0


def beginnings(piece: bytes) -> Iterator[int]:
    """Where messages could begin, by length and type: one place in nine of random bytes."""
    return (found.start() for found in _BEGINNING.finditer(piece))


def is_whole(piece: bytes) -> bool:
    """Whether the length field is right; `piece` has at least two bytes.

    True as well for Paho's C library, which forgets two bytes of a long message (frames/codec.py).
    """
    if _is_forwarded(piece):
        inner = piece[piece[0] :]
        is_inner = len(inner) >= MESSAGE_BYTES_MIN and not _is_forwarded(inner)
        return piece[0] >= _FORWARDED_BYTES_MIN and is_inner and is_whole(inner)
    size, first = len(piece), piece[0]
    if first != 0x01 or size < _LONG_HEAD_BYTES:
        return first == size
    return size - (piece[1] << 8 | piece[2]) in (0, 2)


def is_message(piece: bytes) -> bool:
    """Whether these are one message and nothing else, as far as its layout can tell.

    CR and LF, with which consoles begin, are also the length and type of a REGISTER. A node's has
    topic id 0 (5.4.10), so one that can be printed from end to end was printed.
    """
    if len(piece) < MESSAGE_BYTES_MIN or not is_whole(piece):
        return False
    if piece[1] == Register.KIND and is_text(piece):
        return False
    try:
        decode(piece)
    except MalformedFrame:
        return False
    return True


def _declared_long(piece: BytesLike, at: int) -> int:
    length = piece[at + 1] << 8 | piece[at + 2]
    kind = piece[at + 3]
    is_possible = length >= _LONG_HEAD_BYTES and kind in _KINDS and kind != _FORWARDED
    return length if is_possible else 0


def _declared_forwarded(piece: BytesLike, at: int) -> int | None:
    """5.5: the outer length leaves out the message inside, which is no forwarder's."""
    inner_at = at + piece[at]
    if piece[at] < _FORWARDED_BYTES_MIN or _is_forwarded(piece[inner_at : inner_at + 2]):
        return 0
    inner = declared_length(piece, inner_at)
    return inner if not inner else piece[at] + inner


def _is_forwarded(piece: BytesLike) -> bool:
    return piece[1:2] == b"\xfe" and piece[0] != 0x01
