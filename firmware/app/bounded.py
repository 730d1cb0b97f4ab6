"""A transport whose waits end when the step does: with OSError(ETIMEDOUT), wherever the client is.

The client repeats itself for as long as its retries last, at every gateway. Here the wake's budget
has the last word. Long waits are cut in parts, so that the watchdog is fed.
"""

from errno import ETIMEDOUT

try:
    from micropython import const
except ImportError:
    from ..mqttsn.cpython import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .watch import Watch

_PART_MS = const(500)
_DUP = const(0x80)


class Bounded:
    def __init__(self, inner: "Any", watch: "Watch") -> None:
        self._inner = inner
        self._watch = watch
        self.heard = 0  # frames
        self._frame = bytearray(8)  # the last one
        self.gateways = inner.gateways

    @property
    def index(self) -> int:
        index: int = self._inner.index
        return index

    @index.setter
    def index(self, index: int) -> None:
        self._inner.index = index

    def send(self, frame: bytearray, size: int) -> None:
        if not self._watch.left():
            raise OSError(ETIMEDOUT)
        self._inner.send(frame, size)

    def receive(self, buffer: bytearray, wait_ms: int) -> int:
        while True:
            left = self._watch.left()
            if not left:
                raise OSError(ETIMEDOUT)
            part_ms = min(wait_ms, left, _PART_MS)
            size: int = self._inner.receive(buffer, part_ms)
            wait_ms -= part_ms
            if size or wait_ms <= 0:
                self.heard += size > 0
                self._frame = buffer
                return size

    def publication(self) -> "tuple[int, bool]":
        """Of the PUBLISH that is being delivered: its message id, and whether it is a repeat."""
        frame = self._frame
        at = 4 if frame[0] == 1 else 2  # 5.2.1: lengths of one byte, and of three
        return frame[at + 3] << 8 | frame[at + 4], bool(frame[at] & _DUP)

    def next(self) -> None:
        self._inner.next()

    def close(self) -> None:
        self._inner.close()
