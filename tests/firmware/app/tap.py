"""A UDP relay between a node and the gateway that notes every datagram; it may be deaf, or mute."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from types import TracebackType
from typing import Self

DATAGRAM_OCTETS_MAX = 1500
LOOK_S = 0.02


def kind_of(datagram: bytes) -> int:
    return datagram[3] if datagram[0] == 1 else datagram[1]


class Tap:
    def __init__(self, gateway_port: int) -> None:
        self.up: list[bytes] = []
        self.down: list[bytes] = []
        self.is_deaf = False  # loses all, both ways
        self.is_mute = False  # loses what the gateway says
        self.loses = -1  # frames of this kind that the node sends
        self._near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._near.bind(("127.0.0.1", 0))
        self._far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._far.connect(("127.0.0.1", gateway_port))
        self.port: int = self._near.getsockname()[1]
        self._node: tuple[str, int] | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)

    def clear(self) -> None:
        self.up.clear()
        self.down.clear()

    def _carry(self) -> None:
        while not self._ends.is_set():
            ready = select.select([self._near, self._far], [], [], LOOK_S)[0]
            with contextlib.suppress(ConnectionError):  # the gateway restarts
                if self._near in ready:
                    datagram, self._node = self._near.recvfrom(DATAGRAM_OCTETS_MAX)
                    self.up.append(datagram)
                    if not self.is_deaf and kind_of(datagram) != self.loses:
                        self._far.send(datagram)
                if self._far in ready:
                    datagram = self._far.recv(DATAGRAM_OCTETS_MAX)
                    if not (self.is_deaf or self.is_mute) and self._node is not None:
                        self.down.append(datagram)
                        self._near.sendto(datagram, self._node)

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
        self._near.close()
        self._far.close()
