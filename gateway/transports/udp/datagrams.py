"""The system calls under a datagram socket, in one of two ways that behave alike.

`BatchedDatagrams` moves up to 64 datagrams a call (mmsg.py); `SingleDatagrams` moves one, for C
libraries without recvmmsg. Neither waits, raises or keeps anything: what to do next is the link's
decision.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
from collections.abc import Sequence
from typing import Protocol

from gateway.transports.socket_address import (
    IPV4_BYTES,
    IPV4_NAME_BYTES,
    IPV6_BYTES,
    raw_address,
    socket_address,
)
from gateway.transports.udp import mmsg

_MSG_DONTWAIT = 0x40  # the same on every Linux architecture
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
        while count < mmsg.DATAGRAMS_PER_CALL:
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


class BatchedDatagrams:
    """One socket, up to 64 datagrams a call; `key_bytes` of each address identify the peer."""

    def __init__(
        self, socket_: socket.socket, *, name_bytes: int, key_bytes: int, datagram_bytes_max: int
    ) -> None:
        assert mmsg.CALLS is not None
        self.truncated = 0
        self.receive_failed = 0
        self._recvmmsg, self._sendmmsg = mmsg.CALLS
        self._descriptor = socket_.fileno()
        self._bytes_max = datagram_bytes_max
        # One byte more than allowed: a datagram that needs it was too long, whether cut or not.
        self._in = mmsg.Slots(name_bytes, datagram_bytes_max + 1)
        self._out = mmsg.Slots(name_bytes, datagram_bytes_max)
        # Of what is in each slot: how long it is, and where. To make these anew for each datagram
        # takes as long as to copy it.
        count = mmsg.DATAGRAMS_PER_CALL
        self._sizes_in, self._places_in = [-1] * count, [slice(0)] * count
        self._sizes_out, self._places_out = [-1] * count, [slice(0)] * count
        key = f"{key_bytes}s{name_bytes - key_bytes}x"
        self._keys = [struct.Struct(key * count) for count in range(mmsg.DATAGRAMS_PER_CALL + 1)]

    def receive(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """How many datagrams there were, and those of them that are whole."""
        slots = self._in
        count = self._recvmmsg(
            self._descriptor, slots.table, mmsg.DATAGRAMS_PER_CALL, _MSG_DONTWAIT, None
        )
        if count <= 0:
            if count < 0 and ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
                self.receive_failed += 1
            return 0, []
        lengths = slots.received_bytes[:count].tolist()
        data, sizes, places = slots.bytes, self._sizes_in, self._places_in
        datagrams: list[bytes] = []
        for index, size in enumerate(lengths):
            if sizes[index] != size:  # most are as long as what was there before
                sizes[index], start = size, slots.starts[index]
                places[index] = slice(start, start + size)
            datagrams.append(data[places[index]])
        batch = list(zip(self._keys[count].unpack_from(slots.names), datagrams, strict=True))
        if max(lengths) > self._bytes_max:
            batch = [entry for entry in batch if len(entry[1]) <= self._bytes_max]
            self.truncated += count - len(batch)
        return count, batch

    def send(self, batch: Sequence[tuple[bytes, bytes]]) -> tuple[int, int]:
        """How many the kernel took, and the errno of the next one if it took none. At most 64; one
        longer than `datagram_bytes_max` fits no slot and never reaches the kernel.
        """
        slots, bytes_max = self._out, self._bytes_max
        data, sizes, places = slots.bytes, self._sizes_out, self._places_out
        names: list[bytes] = []
        for address, datagram in batch[: mmsg.DATAGRAMS_PER_CALL]:
            size = len(datagram)
            if size > bytes_max:
                break
            index = len(names)
            if sizes[index] != size:
                sizes[index] = slots.bytes_to_send[index] = size
                start = slots.starts[index]
                places[index] = slice(start, start + size)
            data[places[index]] = datagram
            names.append(address)
        if not names:
            return 0, errno.EMSGSIZE
        self._keys[len(names)].pack_into(slots.names, 0, *names)
        taken = self._sendmmsg(self._descriptor, slots.table, len(names), _MSG_DONTWAIT)
        return (taken, 0) if taken > 0 else (0, ctypes.get_errno())


def datagram_calls(
    socket_: socket.socket, *, datagram_bytes_max: int, batched: bool | None
) -> DatagramCalls:
    """`batched`: None takes the better one that this C library has."""
    if not (mmsg.available() if batched is None else batched):
        return SingleDatagrams(socket_, datagram_bytes_max=datagram_bytes_max)
    ipv4 = socket_.family == socket.AF_INET
    return BatchedDatagrams(
        socket_,
        name_bytes=IPV4_NAME_BYTES if ipv4 else IPV6_BYTES,
        key_bytes=IPV4_BYTES if ipv4 else IPV6_BYTES,
        datagram_bytes_max=datagram_bytes_max,
    )
