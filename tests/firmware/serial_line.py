"""A serial line between a board's UART and a port of the gateway: two pseudo-terminals and what
carries the octets between them, some of them damaged by dice.
"""

from __future__ import annotations

import os
import pty
import random
import select
import threading
import tty
from types import TracebackType
from typing import Self

LOOK_S = 0.05
READ_OCTETS = 256


class SerialLine:
    def __init__(self, *, errors: float = 0.0, seed: int = 1) -> None:
        """`errors`: the share of bytes of which one bit is turned over, each way."""
        self.damaged = 0
        self.errors = errors
        self._dice = random.Random(seed)
        self._ends = threading.Event()
        self._pairs = [pty.openpty() for _ in range(2)]
        for _, terminal in self._pairs:
            tty.setraw(terminal)
        self.device, self.gateway_port = (os.ttyname(terminal) for _, terminal in self._pairs)
        self._thread = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._thread.join()
        for pair in self._pairs:
            for descriptor in pair:
                os.close(descriptor)

    def _carry(self) -> None:
        (near, _), (far, _) = self._pairs
        other = {near: far, far: near}
        while not self._ends.is_set():
            for ready in select.select([near, far], [], [], LOOK_S)[0]:
                os.write(other[ready], self._noisy(os.read(ready, READ_OCTETS)))

    def _noisy(self, octets: bytes) -> bytes:
        found = bytearray(octets)
        for at in range(len(found)):
            if self._dice.random() < self.errors:
                found[at] ^= 1 << self._dice.randrange(8)
                self.damaged += 1
        return bytes(found)
