"""A serial line between a board and a gateway that listens on UDP.

The board's end is a pseudo-terminal; between them octets are damaged by dice. Gateways have serial
ports of their own; this one is for what the node does, alone.
"""

from __future__ import annotations

import contextlib
import os
import pty
import random
import select
import socket
import threading
import tty
from types import TracebackType
from typing import Self

from firmware.mqttsn.framing import Decoder, encode

FRAME_OCTETS_MAX = 302
LOOK_S = 0.05


class SerialLine:
    def __init__(self, gateway_port: int, *, errors: float = 0.0, seed: int = 1) -> None:
        """`errors`: the share of octets of which one bit is turned over, each way."""
        self.damaged = 0
        self._errors = errors
        self._dice = random.Random(seed)
        self._near, self._far = pty.openpty()
        tty.setraw(self._far)
        self.device = os.ttyname(self._far)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(("127.0.0.1", gateway_port))
        self._decoder = Decoder()
        self._buffer = bytearray(FRAME_OCTETS_MAX + 2)
        self._ends = threading.Event()
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
        self._socket.close()
        os.close(self._near)
        os.close(self._far)

    def _carry(self) -> None:
        while not self._ends.is_set():
            ready = select.select([self._near, self._socket.fileno()], [], [], LOOK_S)[0]
            with contextlib.suppress(ConnectionError):  # the gateway restarts
                if self._near in ready:
                    self._up(os.read(self._near, 256))
                if self._socket.fileno() in ready:
                    self._down(self._socket.recv(FRAME_OCTETS_MAX))

    def _up(self, octets: bytes) -> None:
        for octet in self._noisy(octets):
            size = self._decoder.push(octet, self._buffer)
            if size:
                self._socket.send(self._buffer[:size])

    def _down(self, datagram: bytes) -> None:
        line = bytearray(2 * len(datagram) + 6)
        size = encode(bytearray(datagram), len(datagram), line)
        os.write(self._near, self._noisy(bytes(line[:size])))

    def _noisy(self, octets: bytes) -> bytes:
        found = bytearray(octets)
        for at in range(len(found)):
            if self._dice.random() < self._errors:
                found[at] ^= 1 << self._dice.randrange(8)
                self.damaged += 1
        return bytes(found)
