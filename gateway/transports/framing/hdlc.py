"""HDLC-like framing of RFC 1662, without its address and control bytes: the default.

    7E | message and FCS-16, escaped | 7E

- FCS-16 is that of X.25, over the message, low byte first (C.2 there). 7D announces an escaped
  byte, which is xored with 20 (4.2).
- Escaped as well as 7E and 7D are the bytes of a control character map: on a board whose console is
  the same port those would interrupt or stop it. On reception any escaped byte is taken.
- Both marks are sent with each frame, so that damage to one mark costs one frame; on reception two
  frames may share one. 7D 7E aborts a frame (4.3).
- A byte of the map that comes unescaped was put there by something between us, and is removed
  before the FCS is computed (7.1); unless the FCS is right with it: then the peer has a
  smaller map, and these are its bytes.

The FCS is computed in C: the standard library has the CRC of the mirrored polynomial, so bytes are
mirrored, in one call as well. A table in Python takes 40 times as long.
"""

from __future__ import annotations

import re
from binascii import crc_hqx

from gateway.transports.framing.counters import Fault
from gateway.transports.framing.messages import is_whole

# What interrupts, stops or switches a console (Ctrl-A to Ctrl-D of MicroPython), and XON, XOFF.
DEFAULT_ESCAPES = frozenset({0x01, 0x02, 0x03, 0x04, 0x11, 0x13})
CONTROL_BYTES = frozenset(range(0x20))  # what a map may name (7.1)

_FLAG = b"\x7e"
_ESCAPE = b"\x7d"
_FCS_BYTES = 2
_FRAME_BYTES_MIN = 2 + _FCS_BYTES

_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_FCS_START = 0xFFFF
_FCS_RIGHT = 0x1D0F  # over a message with its FCS: F0B8 of C.2, mirrored
_ESCAPED_PAIR = re.compile(rb"\x7d(.)", re.DOTALL)
_PLAIN = tuple(bytes((byte ^ 0x20,)) for byte in range(256))


def fcs(message: bytes) -> bytes:
    """As it goes on the line, before it is escaped."""
    register = crc_hqx(message.translate(_MIRRORED), _FCS_START) ^ 0xFFFF
    return register.to_bytes(_FCS_BYTES, "big").translate(_MIRRORED)


class HdlcFrames:
    mark = _FLAG

    def __init__(self, message_bytes_max: int, escapes: frozenset[int]) -> None:
        if not escapes <= CONTROL_BYTES:
            raise ValueError(f"a control character map has bytes below 0x20, got {set(escapes)}")
        self._message_bytes_max = message_bytes_max
        self.piece_bytes_max = 2 * (message_bytes_max + _FCS_BYTES)
        self._map = bytes(sorted(escapes))
        # The escape itself comes first, or it would escape what the others put there.
        self._pairs = [
            (bytes((byte,)), bytes((0x7D, byte ^ 0x20))) for byte in (0x7D, 0x7E, *self._map)
        ]

    def wrap(self, message: bytes) -> bytes:
        body = message + fcs(message)
        for plain, escaped in self._pairs:
            body = body.replace(plain, escaped)
        return _FLAG + body + _FLAG

    def message_in(self, piece: bytes) -> bytes | Fault | None:
        if len(piece) > self.piece_bytes_max:
            return "too_long"
        body = piece
        if _ESCAPE in piece:
            if piece.endswith(_ESCAPE):
                return "aborted"
            body = _unescaped(piece)
        if crc_hqx(body.translate(_MIRRORED), _FCS_START) == _FCS_RIGHT:
            return self._message_of(body)
        return self._message_without_map(piece)

    def _message_without_map(self, piece: bytes) -> bytes | Fault | None:
        kept = piece.translate(None, self._map)
        if not kept:
            return None
        body = _unescaped(kept)
        if len(body) < _FRAME_BYTES_MIN:
            return "too_short"
        if len(kept) < len(piece) and crc_hqx(body.translate(_MIRRORED), _FCS_START) == _FCS_RIGHT:
            return self._message_of(body)
        return "bad_check"

    def _message_of(self, body: bytes) -> bytes | Fault:
        """`body` passed the check. What then does not fit its own length is damaged all the same,
        one frame in 65,536 that were joined or cut, or another protocol's."""
        message = body[:-_FCS_BYTES]
        if len(message) < 2:
            return "too_short"
        if len(message) > self._message_bytes_max:
            return "too_long"
        return message if is_whole(message) else "not_messages"


def _unescaped(piece: bytes) -> bytes:
    return _ESCAPED_PAIR.sub(lambda pair: _PLAIN[pair[1][0]], piece)
