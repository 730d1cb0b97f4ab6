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


class Bounded:
    def __init__(self, inner: "Any", watch: "Watch") -> None:
        self._inner = inner
        self._watch = watch
        self.heard = 0  # frames
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
                return size

    def next(self) -> None:
        self._inner.next()

    def close(self) -> None:
        self._inner.close()
