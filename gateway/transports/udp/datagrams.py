"""The system calls under a datagram socket, in one of two ways that behave alike.

`BatchedDatagrams` moves up to 64 datagrams a call (mmsg.py); `SingleDatagrams` moves one, for C
machines without recvmmsg. Neither waits, raises or keeps a datagram: what to do next is the link's
decision. With `sources`, a peer is answered from the address that it wrote to (sources.py).
"""

from __future__ import annotations

import ctypes
import errno
import logging
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
from gateway.transports.udp.sources import GONE, Sources

log = logging.getLogger("tidegate.udp")

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

    def __init__(
        self, socket_: socket.socket, *, datagram_bytes_max: int, sources: Sources | None = None
    ) -> None:
        self.truncated = 0
        self.receive_failed = 0
        self._socket = socket_
        self._bytes_max = datagram_bytes_max
        self._sources = sources

    def receive(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        batch = []
        count = 0
        while count < mmsg.DATAGRAMS_PER_CALL:
            try:
                peer, datagram = self._receive_one()
            except _NOTHING_THERE:
                break
            except OSError:
                self.receive_failed += 1
                break
            count += 1
            if len(datagram) > self._bytes_max:
                self.truncated += 1
            else:
                batch.append((peer, datagram))
        return count, batch

    def _receive_one(self) -> tuple[bytes, bytes]:
        sources = self._sources
        if sources is None:
            datagram, address = self._socket.recvfrom(self._bytes_max + 1)
            return raw_address(address), datagram
        datagram, controls, _, address = self._socket.recvmsg(
            self._bytes_max + 1, sources.family.control_bytes
        )
        peer = raw_address(address)
        for _, _, information in controls:  # there is no other that we asked for
            sources.received_at(peer, sources.family.source(information))
        return peer, datagram

    def send(self, batch: Sequence[tuple[bytes, bytes]]) -> tuple[int, int]:
        for taken, (address, datagram) in enumerate(batch):
            if len(datagram) > self._bytes_max:
                return taken, 0 if taken else errno.EMSGSIZE
            try:
                self._send_one(address, datagram)
            except OSError as error:
                return taken, 0 if taken else error.errno or 0
        return len(batch), 0

    def _send_one(self, address: bytes, datagram: bytes) -> None:
        sources, to = self._sources, socket_address(address)
        if sources is None:
            self._socket.sendto(datagram, to)
            return
        family, (source,) = sources.family, sources.of((address,))
        control = (family.level, family.kind, family.information(source))
        try:
            self._socket.sendmsg([datagram], [control], 0, to)
        except OSError as error:
            if error.errno not in GONE or source is None:
                raise
            self._socket.sendto(datagram, to)
            sources.forget(address)


class BatchedDatagrams:
    """One socket, up to 64 datagrams a call; `key_bytes` of each address identify the peer."""

    def __init__(
        self,
        socket_: socket.socket,
        *,
        name_bytes: int,
        key_bytes: int,
        datagram_bytes_max: int,
        sources: Sources | None = None,
    ) -> None:
        assert mmsg.CALLS is not None
        self.truncated = 0
        self.receive_failed = 0
        self._recvmmsg, self._sendmmsg = mmsg.CALLS
        self._descriptor = socket_.fileno()
        self._bytes_max = datagram_bytes_max
        # One byte more than allowed: a datagram that needs it was too long, whether cut or not.
        self._sources = sources
        self._control_bytes = sources.family.control_bytes if sources else 0
        self._in = mmsg.Slots(name_bytes, datagram_bytes_max + 1, self._control_bytes)
        self._out = mmsg.Slots(name_bytes, datagram_bytes_max, self._control_bytes)
        # Of what is in each slot: how long it is, and where. To make these again for each datagram
        # takes as long as to copy it.
        count = mmsg.DATAGRAMS_PER_CALL
        self._sizes_in, self._places_in = [-1] * count, [slice(0)] * count
        self._sizes_out, self._places_out = [-1] * count, [slice(0)] * count
        key = f"{key_bytes}s{name_bytes - key_bytes}x"
        self._keys = [struct.Struct(key * count) for count in range(mmsg.DATAGRAMS_PER_CALL + 1)]
        self._controls = [slice(each * self._control_bytes) for each in range(count + 1)]
        # What each slot to send from names as our address.
        self._sources_out: list[bytes | None] = [None] * count
        if sources is not None:
            header = sources.family.header
            for index in range(count):
                start = index * self._control_bytes
                self._out.controls[start : start + len(header)] = header
                self._out.control_sizes[index] = sources.family.sent_bytes

    def receive(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """How many datagrams there were, and those of them that are whole."""
        slots = self._in
        count = self._recvmmsg(
            self._descriptor, slots.table, mmsg.DATAGRAMS_PER_CALL, mmsg.MSG_DONTWAIT, None
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
        peers = self._keys[count].unpack_from(slots.names)
        sources = self._sources
        if sources is not None:
            usual = sources.usual
            if not usual or not usual.startswith(slots.controls[self._controls[count]]):
                sources.received(peers, slots.controls)
        batch = list(zip(peers, datagrams, strict=True))
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
        sources = self._sources
        if sources is not None and sources.is_used:
            wanted = sources.of(names)
            if wanted != self._sources_out[: len(wanted)]:
                self._name_sources(sources, wanted)
        taken = self._sendmmsg(self._descriptor, slots.table, len(names), mmsg.MSG_DONTWAIT)
        if taken > 0:
            return taken, 0
        error = ctypes.get_errno()
        if sources is not None and error in GONE:
            return self._send_without(sources, batch[:1], error)
        return 0, error

    def _send_without(
        self, sources: Sources, one: Sequence[tuple[bytes, bytes]], error: int
    ) -> tuple[int, int]:
        """Once more, if it named an address of ours, by one that the kernel chooses."""
        peer = one[0][0]
        source = sources.forget(peer)
        if source is None:
            return 0, error
        taken, error = self.send(one)
        if not taken:  # the way is missing, not the address
            sources.received_at(peer, source)
        return taken, error

    def _name_sources(self, sources: Sources, wanted: list[bytes | None]) -> None:
        """In the control messages; most are as they were before."""
        family, controls = sources.family, self._out.controls
        for index, source in enumerate(wanted):
            if self._sources_out[index] != source:
                self._sources_out[index] = source
                start = index * self._control_bytes + family.information_at
                controls[start : start + family.information_bytes] = family.information(source)


def datagram_calls(
    socket_: socket.socket,
    *,
    datagram_bytes_max: int,
    batched: bool | None,
    sources: Sources | None = None,
) -> DatagramCalls:
    """`batched`: None takes the better one that works here."""
    if batched is None:
        batched = mmsg.available(socket_.fileno())
        if not batched:
            log.debug("no recvmmsg and sendmmsg here, datagrams are read and sent one by one")
    if not batched:
        return SingleDatagrams(socket_, datagram_bytes_max=datagram_bytes_max, sources=sources)
    ipv4 = socket_.family == socket.AF_INET
    return BatchedDatagrams(
        socket_,
        name_bytes=IPV4_NAME_BYTES if ipv4 else IPV6_BYTES,
        key_bytes=IPV4_BYTES if ipv4 else IPV6_BYTES,
        datagram_bytes_max=datagram_bytes_max,
        sources=sources,
    )
