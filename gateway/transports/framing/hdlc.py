"""HDLC-like framing of RFC 1662, without its address and control octets: the default.

    7E | message and FCS-16, escaped | 7E

- FCS-16 is that of X.25, over the message, low octet first (C.2 there). 7D announces an escaped
  octet, which is xored with 20 (4.2).
- Escaped besides 7E and 7D are the octets of a control character map: on a board whose console is
  the same port those would interrupt or stop it. On reception any escaped octet is taken.
- Both marks are sent with each frame, so that damage to one mark costs one frame; on reception two
  frames may share one. 7D 7E aborts a frame (4.3).
- An octet of the map that comes unescaped was put there by something between us, and is removed
  before the FCS is computed (7.1); unless the FCS is right with it: then the peer has a
  smaller map, and these are its octets.

The FCS is computed in C: the standard library has the CRC of the mirrored polynomial, so octets are
mirrored, in one call as well. A table in Python takes 40 times as long.
"""

from __future__ import annotations

import re
from binascii import crc_hqx

from gateway.transports.framing.counters import Fault
from gateway.transports.framing.messages import is_whole

# What interrupts, stops or switches a console (Ctrl-A to Ctrl-D of MicroPython), and XON, XOFF.
DEFAULT_ESCAPES = frozenset({0x01, 0x02, 0x03, 0x04, 0x11, 0x13})
CONTROL_OCTETS = frozenset(range(0x20))  # what a map may name (7.1)

_FLAG = b"\x7e"
_ESCAPE = b"\x7d"
_FCS_OCTETS = 2
_FRAME_OCTETS_MIN = 2 + _FCS_OCTETS

_MIRRORED = bytes(int(f"{octet:08b}"[::-1], 2) for octet in range(256))
_FCS_START = 0xFFFF
_FCS_RIGHT = 0x1D0F  # over a message with its FCS: F0B8 of C.2, mirrored
_ESCAPED_PAIR = re.compile(rb"\x7d(.)", re.DOTALL)
_PLAIN = tuple(bytes((octet ^ 0x20,)) for octet in range(256))


def fcs(message: bytes) -> bytes:
    """As it goes on the line, before it is escaped."""
    register = crc_hqx(message.translate(_MIRRORED), _FCS_START) ^ 0xFFFF
    return register.to_bytes(_FCS_OCTETS, "big").translate(_MIRRORED)


class HdlcFrames:
    mark = _FLAG

    def __init__(self, message_bytes_max: int, escapes: frozenset[int]) -> None:
        if not escapes <= CONTROL_OCTETS:
            raise ValueError(f"a control character map has octets below 0x20, got {set(escapes)}")
        self._message_bytes_max = message_bytes_max
        self.piece_octets_max = 2 * (message_bytes_max + _FCS_OCTETS)
        self._map = bytes(sorted(escapes))
        # The escape itself comes first, or it would escape what the others put there.
        self._pairs = [
            (bytes((octet,)), bytes((0x7D, octet ^ 0x20))) for octet in (0x7D, 0x7E, *self._map)
        ]

    def wrap(self, message: bytes) -> bytes:
        body = message + fcs(message)
        for plain, escaped in self._pairs:
            body = body.replace(plain, escaped)
        return _FLAG + body + _FLAG

    def message_in(self, piece: bytes) -> bytes | Fault | None:
        if len(piece) > self.piece_octets_max:
            return "too_long"
        octets = piece
        if _ESCAPE in piece:
            if piece.endswith(_ESCAPE):
                return "aborted"
            octets = _unescaped(piece)
        if crc_hqx(octets.translate(_MIRRORED), _FCS_START) == _FCS_RIGHT:
            return self._message_of(octets)
        return self._message_without_map(piece)

    def _message_without_map(self, piece: bytes) -> bytes | Fault | None:
        kept = piece.translate(None, self._map)
        if not kept:
            return None
        octets = _unescaped(kept)
        if len(octets) < _FRAME_OCTETS_MIN:
            return "too_short"
        if (
            len(kept) < len(piece)
            and crc_hqx(octets.translate(_MIRRORED), _FCS_START) == _FCS_RIGHT
        ):
            return self._message_of(octets)
        return "bad_check"

    def _message_of(self, octets: bytes) -> bytes | Fault:
        """`octets` passed the check. What then does not fit its own length is damaged all the same,
        one frame in 65,536 that were joined or cut, or another protocol's."""
        message = octets[:-_FCS_OCTETS]
        if len(message) < 2:
            return "too_short"
        if len(message) > self._message_bytes_max:
            return "too_long"
        return message if is_whole(message) else "not_messages"


def _unescaped(piece: bytes) -> bytes:
    return _ESCAPED_PAIR.sub(lambda pair: _PLAIN[pair[1][0]], piece)
