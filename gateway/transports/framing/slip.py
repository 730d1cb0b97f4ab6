"""SLIP (RFC 1055), for devices that speak it: a frame ends with C0, and there is no check.

    C0 | message, escaped | C0

C0 is sent as DB DC, DB as DB DD. What is received must be one MQTT-SN message by its own length and
content, or it is refused: that finds what was cut or joined, and leaves wrong bytes in a payload,
or in an id, unnoticed. Use HDLC-like framing where you may choose.
"""

from __future__ import annotations

from gateway.transports.framing.counters import Fault
from gateway.transports.framing.messages import MESSAGE_BYTES_MIN, is_message

_END, _ESCAPE = b"\xc0", b"\xdb"
_ESCAPED_END, _ESCAPED_ESCAPE = b"\xdb\xdc", b"\xdb\xdd"


class SlipFrames:
    mark = _END

    def __init__(self, message_bytes_max: int) -> None:
        self._message_bytes_max = message_bytes_max
        self.piece_bytes_max = 2 * message_bytes_max

    def wrap(self, message: bytes) -> bytes:
        body = message.replace(_ESCAPE, _ESCAPED_ESCAPE).replace(_END, _ESCAPED_END)
        return _END + body + _END

    def message_in(self, piece: bytes) -> bytes | Fault | None:
        if len(piece) > self.piece_bytes_max:
            return "too_long"
        if len(piece) < MESSAGE_BYTES_MIN:
            return "too_short"
        message = piece
        if _ESCAPE in piece:
            pairs = piece.count(_ESCAPED_END) + piece.count(_ESCAPED_ESCAPE)
            if pairs != piece.count(_ESCAPE):
                return "bad_check"
            message = piece.replace(_ESCAPED_END, _END).replace(_ESCAPED_ESCAPE, _ESCAPE)
        if len(message) > self._message_bytes_max:
            return "too_long"
        return message if is_message(message) else "bad_check"
