"""Datagrams to and from one gateway of several, over the network that the board is connected to.

What the network refuses for a moment is a lost datagram: whoever asks asks again. That there is no
network, or no such host, is an OSError.
"""

from socket import AF_INET, SOCK_DGRAM, getaddrinfo

try:
    from select import poll
    from socket import socket
    from time import sleep_ms  # type: ignore[attr-defined]

    from micropython import const
except ImportError:
    from .cpython import const, poll, sleep_ms, socket  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_POLLIN = const(1)  # on every port


class Udp:
    def __init__(self, *addresses: tuple[str, int]) -> None:
        """Gateways, as host and port, in the order in which they are to be tried."""
        self._addresses = addresses
        self.gateways = len(addresses)
        self.index = 0  # of the one in use
        self.local_port = 0  # any; who keeps it over a deep sleep is known by it
        self._socket: Any = None

    def send(self, frame: bytearray, size: int) -> None:
        opened = self._socket or self._open()
        try:
            opened.write(frame, size)
        except OSError:
            pass

    def receive(self, buffer: bytearray, wait_ms: int) -> int:
        """How many octets came in time; 0 for none."""
        opened = self._socket or self._open()
        try:
            if wait_ms > 0:
                for _ in self._poll.ipoll(wait_ms):
                    pass
            return opened.readinto(buffer) or 0
        except OSError:  # it may be told again at once, for as long as we wait
            sleep_ms(20)
            return 0

    def next(self) -> None:
        self.close()
        self.index = (self.index + 1) % self.gateways

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> "Any":
        address = getaddrinfo(*self._addresses[self.index])[0][-1]
        opened: Any = socket(AF_INET, SOCK_DGRAM)
        self._poll: Any = poll()
        self._poll.register(opened, _POLLIN)
        self._socket = opened
        try:
            opened.setblocking(False)
            opened.bind(getaddrinfo("0.0.0.0", self.local_port)[0][-1])
            opened.connect(address)
        except OSError:
            self.close()
            raise
        return opened
