"""The multicast group of one listening socket. A socket of its own receives; that one sends, so
that ADVERTISE comes from the address to connect to.

- The network may come later than we do, and go away and come back. While the group cannot be joined
  it is tried again, after 1 s at first and after 60 s at last, and health says why. Once it is
  joined, interface and address are checked each CHECK_S.
- What we send ourselves comes back by the group and goes no further than here.
- One read of the socket takes at most 64 datagrams, and then the loop goes on.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass

from gateway.transports.reconnect import Backoff
from gateway.transports.socket_address import socket_address
from gateway.transports.udp.datagrams import SingleDatagrams
from gateway.transports.udp.link import UdpLink
from gateway.transports.udp.multicast_socket import HostPort, Place, find_place, open_group_socket

log = logging.getLogger("tidegate.udp")

CHECK_S = 10.0
DATAGRAM_BYTES_MAX = 2048  # what is longer is no search
RETRY_S_MIN, RETRY_S_MAX = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class GroupCallbacks:
    """Called in this order: joined, datagrams, left."""

    joined: Callable[[], None]
    datagrams: Callable[[list[tuple[bytes, bytes]]], None]
    left: Callable[[], None]


class GroupLink:
    def __init__(
        self,
        listener: UdpLink,
        group: HostPort,
        callbacks: GroupCallbacks,
        *,
        interface: str | None = None,
        hops: int = 1,
        check_s: float = CHECK_S,
    ) -> None:
        """`interface`: its name, one of its addresses, or None; `hops`: how far our messages go."""
        self.group = group
        self._listener = listener
        self._callbacks = callbacks
        self._interface = interface
        self._hops = hops
        self._check_s = check_s
        self._place: Place | None = None
        self._problem: str | None = "not joined yet"
        self._socket: socket.socket | None = None
        self._calls: SingleDatagrams
        self._loop: asyncio.AbstractEventLoop
        self._next_check: asyncio.TimerHandle | None = None
        self._backoff = Backoff(RETRY_S_MIN, RETRY_S_MAX, random.Random())
        self._last_logged: str | None = None

    # From the owner

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Joins, now or when the network is there; the listener must be open."""
        self._loop = loop
        self._check_membership()

    def send(self, datagram: bytes, radius: int) -> None:
        """To all that are at most `radius` hops away, 0 for as far as is configured."""
        if self._place is None:
            return
        hops = min(radius, self._hops) if radius else self._hops
        self._listener.send_to_group(self._place, datagram, hops)

    def close(self) -> None:
        if self._next_check is not None:
            self._next_check.cancel()
            self._next_check = None
        self._leave()

    def check(self) -> str | None:
        """For health: why nothing is received from the group, or None."""
        return self._problem

    @property
    def is_joined(self) -> bool:
        return self._place is not None

    # From the loop

    def _check_membership(self) -> None:
        try:
            wait_s = self._join()
        except OSError as error:
            self._leave()
            self._set_problem(str(error))
            wait_s = self._backoff.next_delay_s()
        self._next_check = self._loop.call_later(wait_s, self._check_membership)

    def _join(self) -> float:
        """Returns in how many seconds to check again. Raises LinkError, or OSError if the network
        goes now.
        """
        place = find_place(self.group, self._listener.listening_on, self._interface)
        if place != self._place:
            self._leave()
            self._listener.send_groups_through(place)
            opened = open_group_socket(place, self._interface)
            self._socket, self._place = opened, place
            self._calls = SingleDatagrams(opened, datagram_bytes_max=DATAGRAM_BYTES_MAX)
            self._loop.add_reader(opened, self._readable)
            self._set_problem(None)
            self._backoff.reset()
            self._callbacks.joined()
        return self._check_s

    def _leave(self) -> None:
        if self._socket is None:
            return
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._socket = self._place = None
        self._callbacks.left()

    def _readable(self) -> None:
        _, batch = self._calls.receive()
        others = [each for each in self._listener.within(batch) if not self._is_ours(each[0])]
        if others:
            self._callbacks.datagrams(others)

    def _is_ours(self, address: bytes) -> bool:
        assert self._place is not None
        host, port = socket_address(address)[:2]
        return (host.partition("%")[0], port) == self._place.source

    # Log and health

    def _set_problem(self, problem: str | None) -> None:
        """Logs each change once."""
        self._problem = (
            None if problem is None else f"the group {self._shown} is not heard: {problem}"
        )
        if self._last_logged == self._problem and problem is not None:
            return
        self._last_logged = self._problem
        if self._problem is not None:
            log.warning("%s; it is tried again", self._problem)
        elif self._place is not None:
            log.info("in the group %s, as %s", self._shown, self._place.source[0])

    @property
    def _shown(self) -> str:
        host, port = self.group
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
