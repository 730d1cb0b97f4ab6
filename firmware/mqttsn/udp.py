"""Datagrams to and from one gateway of several, over the network that the board is connected to.

What the network refuses for a moment is a lost datagram: the caller asks again. That there is no
network, or no such host, is an OSError; that the board has no sockets, an ImportError.

Datagrams are read one by one, by `recv`. On most ports `readinto` goes on until the buffer is full:
it joins what waits together and cuts the last one. `recv` allocates its answer, and an exception
where there is none, so it is called only when something came.
"""

try:
    from select import poll
    from time import sleep_ms  # type: ignore[attr-defined]

    from micropython import const
except ImportError:
    from .cpython import const, poll, sleep_ms  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_POLLIN = const(1)  # on every port


class Udp:
    def __init__(self, *addresses: "tuple[str, int] | bytes") -> None:
        """Gateways, as host and port or as `find` has them, in the order in which they are to be
        tried. Without any, as where `find` found none, each use raises OSError(ETIMEDOUT).
        """
        self._addresses = addresses
        self.gateways = len(addresses) or 1  # whose use raises
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
        """How many bytes came in time; 0 for none. Of a longer datagram, as many as fit."""
        opened = self._socket or self._open()
        try:
            for _ in self._poll.ipoll(max(0, wait_ms)):
                heard = opened.recv(len(buffer))
                size = len(heard)
                buffer[:size] = heard
                return size
        except OSError:  # it may be told again at once, for as long as we wait
            sleep_ms(20)
        return 0

    def next(self) -> None:
        """Another gateway from now on."""
        self.close()
        self.index = (self.index + 1) % self.gateways

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> "Any":
        from socket import AF_INET, SOCK_DGRAM, getaddrinfo  # here: not every board has it

        try:
            from socket import socket

            from micropython import const  # noqa: F401, to know which of the two this is
        except ImportError:
            from .cpython import socket

        if not self._addresses:
            from errno import ETIMEDOUT  # its number differs between ports

            raise OSError(ETIMEDOUT)
        address: Any = self._addresses[self.index]
        if not isinstance(address, bytes):  # the Unix port's form of an address, of `find`
            address = getaddrinfo(*address)[0][-1]
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
