"""The system calls under a datagram socket, in one of two ways that behave alike.

`BatchedDatagrams` (mmsg.py) moves up to 64 datagrams a call; `SingleDatagrams` moves one, for C
libraries without recvmmsg. Neither waits, raises or keeps anything: what to do next is the link's
decision.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from typing import Protocol

from gateway.links import mmsg
from gateway.links.mmsg_slots import DATAGRAMS_PER_CALL
from gateway.links.socket_address import (
    IPV4_BYTES,
    IPV4_NAME_BYTES,
    IPV6_BYTES,
    raw_address,
    socket_address,
)

_NOTHING_THERE = (BlockingIOError, InterruptedError)


class DatagramCalls(Protocol):
    """What the link needs of a socket. An entry is (raw address, datagram)."""

    truncated: int
    receive_failed: int

    def receive(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """How many datagrams there were, at most 64, and those of them that are whole."""

    def send(self, batch: Sequence[tuple[bytes, bytes]]) -> tuple[int, int]:
        """How many the kernel took, and the errno of the next one if it took none: EMSGSIZE for one
        longer than `datagram_bytes_max`.
        """


class SingleDatagrams:
    """One datagram a call, through the socket module."""

    def __init__(self, socket_: socket.socket, *, datagram_bytes_max: int) -> None:
        self.truncated = 0
        self.receive_failed = 0
        self._socket = socket_
        self._bytes_max = datagram_bytes_max

    def receive(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        batch = []
        count = 0
        while count < DATAGRAMS_PER_CALL:
            try:
                datagram, peer = self._socket.recvfrom(self._bytes_max + 1)
            except _NOTHING_THERE:
                break
            except OSError:
                self.receive_failed += 1
                break
            count += 1
            if len(datagram) > self._bytes_max:
                self.truncated += 1
            else:
                batch.append((raw_address(peer), datagram))
        return count, batch

    def send(self, batch: Sequence[tuple[bytes, bytes]]) -> tuple[int, int]:
        for taken, (address, datagram) in enumerate(batch):
            if len(datagram) > self._bytes_max:
                return taken, 0 if taken else errno.EMSGSIZE
            try:
                self._socket.sendto(datagram, socket_address(address))
            except OSError as error:
                return taken, 0 if taken else error.errno or 0
        return len(batch), 0


def datagram_calls(
    socket_: socket.socket, *, datagram_bytes_max: int, batched: bool | None
) -> DatagramCalls:
    """`batched`: None takes the better one that this C library has."""
    if not (mmsg.available() if batched is None else batched):
        return SingleDatagrams(socket_, datagram_bytes_max=datagram_bytes_max)
    ipv4 = socket_.family == socket.AF_INET
    return mmsg.BatchedDatagrams(
        socket_,
        name_bytes=IPV4_NAME_BYTES if ipv4 else IPV6_BYTES,
        key_bytes=IPV4_BYTES if ipv4 else IPV6_BYTES,
        datagram_bytes_max=datagram_bytes_max,
    )
