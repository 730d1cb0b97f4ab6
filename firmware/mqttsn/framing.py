"""Frames on a serial line: HDLC-like framing of RFC 1662 without address and control.

Flag 7E, escape 7D with the byte xor 20, FCS-16 with its low byte first. Beyond those two the
bytes are escaped that a REPL or a modem would take for itself (01 02 03 04 11 13); 11 and 13 that
come unescaped are a driver's. Whatever came before a flag and is no frame is dropped: one damaged
byte costs at most two frames.

Limits: a frame and its check have to fit the buffer; longer ones are dropped.
"""

try:
    from micropython import const
except ImportError:
    from .cpython import const

_FLAG = const(0x7E)
_ESCAPE = const(0x7D)
_FLIP = const(0x20)
_RESERVED = const(b"\x7e\x7d\x01\x02\x03\x04\x11\x13")
_XON = const(0x11)
_XOFF = const(0x13)
_FRAME_OCTETS_MIN = const(4)  # of MQTT-SN two, and the check

_GOOD = const(0xF0B8)  # what `check` makes of a frame with its own check behind it
_BEHIND = const(-1)  # nothing counts until the next flag

# X.25: what four bits do to the check, low bit first.
STEPS = (
    0x0000, 0x1081, 0x2102, 0x3183, 0x4204, 0x5285, 0x6306, 0x7387,
    0x8408, 0x9489, 0xA50A, 0xB58B, 0xC60C, 0xD68D, 0xE70E, 0xF78F,
)  # fmt: skip


def check(octets: bytearray, size: int) -> int:
    fcs = 0xFFFF
    for at in range(size):
        octet = octets[at]
        fcs = fcs >> 4 ^ STEPS[(fcs ^ octet) & 15]
        fcs = fcs >> 4 ^ STEPS[(fcs ^ octet >> 4) & 15]
    return fcs


def encode(frame: bytearray, size: int, line: bytearray) -> int:
    """Write to `line`, which has room for 2 * size + 6; how many bytes that are."""
    fcs = check(frame, size) ^ 0xFFFF
    line[0] = _FLAG
    end = 1
    for at in range(size + 2):
        octet = frame[at] if at < size else fcs >> 8 * (at - size) & 255
        if octet in _RESERVED:
            line[end] = _ESCAPE
            end += 1
            octet ^= _FLIP
        line[end] = octet
        end += 1
    line[end] = _FLAG
    return end + 1


class Decoder:
    def __init__(self) -> None:
        self.dropped = 0  # frames that were damaged or too long
        self._at = self._flip = 0

    def push(self, octet: int, buffer: bytearray) -> int:
        """One byte more; the size of the frame that it completed in `buffer`, or 0."""
        at = self._at
        if octet == _FLAG:
            is_whole = not self._flip
            self._at = self._flip = 0
            if at >= _FRAME_OCTETS_MIN and is_whole and check(buffer, at) == _GOOD:
                return at - 2
            self.dropped += at > 0
        elif at < 0 or octet == _XON or octet == _XOFF:
            pass
        elif octet == _ESCAPE:
            self._flip = _FLIP
        elif at == len(buffer):
            self._at = _BEHIND
            self.dropped += 1
        else:
            buffer[at] = octet ^ self._flip
            self._flip = 0
            self._at = at + 1
        return 0
