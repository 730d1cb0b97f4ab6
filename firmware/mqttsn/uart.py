"""Frames to and from the gateway at the other end of a serial line.

    from machine import UART
    from mqttsn import Client
    from mqttsn.uart import Uart

    client = Client(Uart(UART(1, 115200)), b"greenhouse-3")

Any stream with `write(buffer, size)`, `readinto(buffer)` and `select.poll` will do. On a console
(`sys.stdin`) turn Ctrl-C off first: `micropython.kbd_intr(-1)`.

Limit: `size` is that of the client; a frame may have 2 bytes less.
"""

from select import POLLIN

from .framing import Decoder, encode

try:
    from select import poll
    from time import ticks_diff, ticks_ms  # type: ignore[attr-defined]

    from micropython import const
except ImportError:
    from .cpython import const, poll, ticks_diff, ticks_ms  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHUNK = const(32)  # read at once; a receive buffer of a board has 64 or more
_OVER_MS = const(100)  # bytes that keep coming prolong a wait by no more


class Uart:
    gateways = 1
    index = 0

    def __init__(self, stream: "Any", size: int = 256) -> None:
        self._stream = stream
        self._line = bytearray(2 * size + 6)
        self._chunk = bytearray(_CHUNK)
        self._at = self._end = 0  # of what was read and is still to be looked at
        self._decoder = Decoder()
        self._poll: Any = poll()
        self._poll.register(stream, POLLIN)

    def send(self, frame: bytearray, size: int) -> None:
        """What the line does not take at once is a lost frame."""
        try:
            self._stream.write(self._line, encode(frame, size, self._line))
        except OSError:
            pass

    def receive(self, buffer: bytearray, wait_ms: int) -> int:
        """The size of a frame that came in time, or 0. It must be the same buffer each time."""
        start = ticks_ms()
        while True:
            while self._at < self._end:
                self._at += 1
                size = self._decoder.push(self._chunk[self._at - 1], buffer)
                if size:
                    return size
            left = wait_ms - ticks_diff(ticks_ms(), start)
            if left > 0:
                for _ in self._poll.ipoll(left):
                    pass
            self._at = 0
            self._end = self._stream.readinto(self._chunk) or 0
            if left < -_OVER_MS or (left <= 0 and not self._end):
                return 0

    def next(self) -> None:
        """There is only one gateway at the other end."""

    def close(self) -> None:
        self._poll.unregister(self._stream)
