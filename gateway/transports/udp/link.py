"""One listening UDP socket; datagrams come and go in batches.

- A turn hands over at most 4 calls of 64 datagrams and then lets the loop go on; what was sent
  meanwhile leaves at the end of the turn at the latest.
- When to read again is the tick's decision (tick.py): as soon as something is there, or a little
  later. Until a lone datagram is answered the loop may not even sleep.
- Nothing that happens on the network raises here. What cannot be sent is counted by what was in
  the way.
- A full socket buffer is waited for, holding at most SEND_QUEUE_MAX datagrams; later ones are
  dropped and counted as `busy`. MQTT-SN sends again what is not answered.
"""

from __future__ import annotations

import asyncio
import enum
import errno
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.transports.clock import now
from gateway.transports.errors import LinkError
from gateway.transports.fine_timer import FineTimer, fine_timer
from gateway.transports.socket_address import IPV4_BYTES, IPV6_BYTES, address_of, address_text
from gateway.transports.udp.datagrams import DatagramCalls, datagram_calls
from gateway.transports.udp.mmsg import DATAGRAMS_PER_CALL
from gateway.transports.udp.multicast_socket import Place, send_groups_through, send_to_group
from gateway.transports.udp.socket import (
    has_unread,
    lost_address,
    open_udp_socket,
    receive_buffer_drops,
)
from gateway.transports.udp.sources import Sources, sources_of
from gateway.transports.udp.tick import AdaptiveTick, BusyPoll

__all__ = ["LinkError", "SendFailure", "UdpCounters", "UdpLink", "address_of", "address_text"]

CALLS_PER_TURN = 4
SEND_QUEUE_MAX = 1024


class SendFailure(enum.Enum):
    """What was in the way of a datagram."""

    BUSY = "busy"  # the socket's buffer stayed full until our queue was full as well
    REFUSED = "refused"  # a firewall rule, or a broadcast address
    TOO_LARGE = "too_large"
    UNREACHABLE = "unreachable"
    OTHER = "other"


_FAILURES = {
    errno.EAGAIN: SendFailure.BUSY,
    errno.ENOBUFS: SendFailure.BUSY,
    errno.ENOMEM: SendFailure.BUSY,
    errno.EPERM: SendFailure.REFUSED,
    errno.EACCES: SendFailure.REFUSED,
    errno.EMSGSIZE: SendFailure.TOO_LARGE,
    errno.ENETUNREACH: SendFailure.UNREACHABLE,
    errno.EHOSTUNREACH: SendFailure.UNREACHABLE,
    errno.ENETDOWN: SendFailure.UNREACHABLE,
    errno.EHOSTDOWN: SendFailure.UNREACHABLE,
    errno.EADDRNOTAVAIL: SendFailure.UNREACHABLE,
}


@dataclass(slots=True)
class UdpCounters:
    received: int = 0
    sent: int = 0
    send_failed: dict[SendFailure, int] = field(
        default_factory=lambda: dict.fromkeys(SendFailure, 0)
    )
    receive_failed: int = 0
    receive_buffer_drops: int = 0
    truncated: int = 0  # longer than datagram_bytes_max, dropped
    outside_networks: int = 0  # from hosts that are not in `networks`, dropped


class UdpLink:
    """Raw addresses and datagrams in, raw addresses and datagrams out."""

    listening_on: tuple[str, int]
    address_bytes: int  # of a raw address here

    def __init__(
        self,
        listen: tuple[str, int],
        on_datagrams: Callable[[list[tuple[bytes, bytes]]], None],
        *,
        receive_buffer_bytes: int = 4 << 20,
        tick_ms_max: float = 3.0,
        busy_poll_ms_max: float = 0.2,
        batched: bool | None = None,
        datagram_bytes_max: int = 2048,
        shares_port: bool = False,
        peers_max: int = 10_000,
        is_within: Callable[[bytes], bool] | None = None,
    ) -> None:
        """`shares_port`: with the socket of a multicast group. `peers_max`: of so many peers it is
        known to which of our addresses they write (sources.py). `is_within`: whether datagrams of
        this raw address are taken; None for all.
        """
        self.listening_on = listen
        self.address_bytes = IPV6_BYTES if ":" in listen[0] else IPV4_BYTES
        self.counters = UdpCounters()
        self.lost_address: str | None = None  # a sentence for the operator
        self._on_datagrams = on_datagrams
        self._receive_buffer_bytes = receive_buffer_bytes
        self._datagram_bytes_max = datagram_bytes_max
        self._batched = batched
        self._shares_port = shares_port
        self._peers_max = peers_max
        self._is_within = is_within
        self._tick = AdaptiveTick(tick_ms_max, is_fine=True)
        self._busy_poll = BusyPoll(busy_poll_ms_max, processors=len(os.sched_getaffinity(0)))
        self._is_awake = False
        self._socket: socket.socket | None = None
        self._calls: DatagramCalls
        self._sources: Sources | None = None
        self._loop: asyncio.AbstractEventLoop
        self._next_read: asyncio.TimerHandle | None = None
        self._fine_timer: FineTimer | None = None
        self._queue: list[tuple[bytes, bytes]] = []
        # Up to here the queue fills before it is flushed; higher while the socket's buffer is full.
        self._flush_at = DATAGRAMS_PER_CALL

    # From the owner

    def hand_to(self, on_datagrams: Callable[[list[tuple[bytes, bytes]]], None]) -> None:
        """Before `open`: who takes what comes in place of who was said first."""
        self._on_datagrams = on_datagrams

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Binds and listens; raises LinkError with a sentence for the operator."""
        opened = open_udp_socket(
            self.listening_on, self._receive_buffer_bytes, shares_port=self._shares_port
        )
        host, port = opened.getsockname()[:2]
        self.listening_on = (host, port)
        self._socket = opened
        self._sources = sources_of(opened, peers_max=self._peers_max, batch_max=DATAGRAMS_PER_CALL)
        self._calls = datagram_calls(
            opened,
            datagram_bytes_max=self._datagram_bytes_max,
            batched=self._batched,
            sources=self._sources,
        )
        self._loop = loop
        loop.add_reader(opened, self._readable)

    def within(self, batch: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """What of it is from hosts that may send; the rest is counted."""
        is_within = self._is_within
        if is_within is None:
            return batch
        passed = [each for each in batch if is_within(each[0])]
        self.counters.outside_networks += len(batch) - len(passed)
        return passed

    def send(self, address: bytes, datagram: bytes) -> None:
        """Queued; a full batch flushes itself."""
        queue = self._queue
        queue.append((address, datagram))
        if len(queue) >= self._flush_at:
            self.flush()

    def send_all(self, datagrams: list[tuple[bytes, bytes]]) -> None:
        """With what is queued, now."""
        self._busy_poll.sent(datagrams)
        self._queue += datagrams
        self.flush()

    def flush(self) -> None:
        """Everything queued goes to the kernel now, unless its buffer is full."""
        if not self._queue or self._socket is None:
            self._queue.clear()
            return
        if self._flush_at == SEND_QUEUE_MAX:
            self._forget_excess()
            return
        queue, self._queue = self._queue, []
        position = 0
        while position < len(queue):
            batch = queue[position : position + DATAGRAMS_PER_CALL]
            taken, error = self._calls.send(batch)
            position += taken
            self.counters.sent += taken
            self._tick.sent(taken)
            if error == errno.EAGAIN:
                self._wait_for_room(queue[position:])
                return
            if error:
                self._count_failure(_FAILURES.get(error, SendFailure.OTHER))
                position += 1

    def send_groups_through(self, place: Place) -> None:
        """What is sent to groups goes there; raises OSError."""
        if self._socket is not None:
            send_groups_through(self._socket, place)

    def send_to_group(self, place: Place, datagram: bytes, hops: int) -> None:
        """At once, not in a batch: how far it goes is a setting of the socket."""
        if self._socket is None:
            return
        try:
            send_to_group(self._socket, place, datagram, hops)
        except OSError as error:
            self._count_failure(_FAILURES.get(error.errno or 0, SendFailure.OTHER))
        else:
            self.counters.sent += 1

    def close(self) -> None:
        """Sends what it can of the queue. May be called twice, and from the callback."""
        if self._socket is None:
            return
        self.flush()
        self.read_receive_buffer_drops()
        if self._next_read is not None:
            self._next_read.cancel()
            self._next_read = None
        if self._fine_timer is not None:
            self._fine_timer.close()
            self._fine_timer = None
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._socket = None

    def check(self) -> str | None:
        """For health: what is wrong, or None."""
        return "its socket is closed" if self._socket is None else None

    def check_address(self) -> str | None:
        """For the daemon, each second: notes whether the machine still has its address, and which
        others.
        """
        if self._sources is not None:
            self._sources.look_at_addresses()
        self.lost_address = lost_address(self.listening_on) if self._socket else None
        return self.lost_address

    def mark(self) -> int | None:
        """How many datagrams were read, for the watchdog, if there are more to be read."""
        return self.counters.received if self._socket and has_unread(self._socket) else None

    def read_receive_buffer_drops(self) -> int:
        """Asks the kernel and notes it in the counters: a system call, so now and then."""
        if self._socket is not None:
            self.counters.receive_buffer_drops = receive_buffer_drops(self._socket)
        return self.counters.receive_buffer_drops

    # From the loop

    def _readable(self) -> None:
        found, wait_s = 0, 0.0
        try:
            found, wait_s = self._turn()
        finally:
            if self._socket is not None:
                if wait_s:
                    self._loop.remove_reader(self._socket)
                    self._read_again_in(wait_s)
                elif found == 1 and self._busy_poll.starts(now()) and not self._is_awake:
                    self._is_awake = True
                    self._loop.call_soon(self._stay_awake)

    def _stay_awake(self) -> None:
        """A loop that has something to call looks at all its sockets and does not sleep."""
        if self._socket is not None and self._busy_poll.goes_on(now()):
            self._loop.call_soon(self._stay_awake)
        else:
            self._is_awake = False

    def _read_again(self) -> None:
        found, wait_s = 0, 0.0
        self._next_read = None
        try:
            found, wait_s = self._turn()
        finally:
            # Also after an exception of the callback: or this link would receive nothing any more.
            if self._socket is not None:
                if found and wait_s:
                    self._read_again_in(wait_s)
                else:
                    self._loop.add_reader(self._socket, self._readable)

    def _read_again_in(self, wait_s: float) -> None:
        if wait_s < 0.001:
            timer = self._fine_timer or self._new_fine_timer()
            if timer is not None:
                timer.set(wait_s)
                return
        self._next_read = self._loop.call_later(wait_s, self._read_again)

    def _new_fine_timer(self) -> FineTimer | None:
        """Few gateways ever need one. None: waits are not fine then."""
        self._fine_timer = fine_timer(self._loop, self._read_again)
        self._tick.is_fine = self._fine_timer is not None
        return self._fine_timer

    def _turn(self) -> tuple[int, float]:
        """How many datagrams came, and the seconds to wait until the next read."""
        calls, counters, tick = self._calls, self.counters, self._tick
        began = now()
        found = count = 0
        try:
            for _ in range(CALLS_PER_TURN):
                count, batch = calls.receive()
                found += count
                if self._is_within is not None:
                    batch = self.within(batch)
                if batch:
                    tick.arrived(batch)
                    self._busy_poll.arrived(batch)
                    self._on_datagrams(batch)
                if count < DATAGRAMS_PER_CALL or self._socket is None:
                    break
        finally:
            counters.received += found
            counters.truncated = calls.truncated
            counters.receive_failed = calls.receive_failed
            self.flush()
        return found, tick.wait_s(began, now(), full=count == DATAGRAMS_PER_CALL)

    # Sending

    def _wait_for_room(self, rest: list[tuple[bytes, bytes]]) -> None:
        assert self._socket is not None
        self._queue = rest
        self._flush_at = SEND_QUEUE_MAX
        self._loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        if self._socket is not None:
            self._loop.remove_writer(self._socket)
            self._flush_at = DATAGRAMS_PER_CALL
            self.flush()

    def _forget_excess(self) -> None:
        while len(self._queue) > SEND_QUEUE_MAX:
            self._queue.pop()
            self._count_failure(SendFailure.BUSY)

    def _count_failure(self, failure: SendFailure) -> None:
        self.counters.send_failed[failure] += 1
