"""The UDP link on loopback, in every way it can be run."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from gateway.transports import fine_timer as fine_timer_module
from gateway.transports.udp.link import (
    CALLS_PER_TURN,
    SEND_QUEUE_MAX,
    SendFailure,
    UdpLink,
    address_of,
    address_text,
)
from gateway.transports.udp.mmsg import DATAGRAMS_PER_CALL
from tests.transports.conftest import Run
from tests.transports.eventually import eventually

BATCHED = pytest.mark.parametrize("batched", [True, False], ids=["batched", "single"])
HOST = pytest.mark.parametrize("host", ["127.0.0.1", "::1"])


@dataclass
class Gathered:
    """A callback that keeps what it is given, and answers if told to."""

    answer: Callable[[bytes, bytes], None] | None = None
    batches: list[list[tuple[bytes, bytes]]] = field(default_factory=list)

    def __call__(self, batch: list[tuple[bytes, bytes]]) -> None:
        self.batches.append(batch)
        for address, datagram in batch:
            if self.answer is not None:
                self.answer(address, datagram)

    @property
    def datagrams(self) -> list[bytes]:
        return [datagram for batch in self.batches for _, datagram in batch]


@pytest.fixture
def peer_at() -> Iterator[Callable[[str], socket.socket]]:
    peers = []

    def new(host: str) -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        peer = socket.socket(family, socket.SOCK_DGRAM)
        peers.append(peer)
        peer.setblocking(False)
        peer.bind((host, 0))
        return peer

    yield new
    for peer in peers:
        peer.close()


PeerAt = Callable[[str], socket.socket]


def name_of(peer: socket.socket) -> bytes:
    host, port = peer.getsockname()[:2]
    return address_of(host, port)


async def received(peer: socket.socket, count: int) -> list[bytes]:
    datagrams: list[bytes] = []

    def enough() -> bool:
        try:
            while True:
                datagrams.append(peer.recv(65536))
        except BlockingIOError:
            return len(datagrams) >= count

    await eventually(enough, f"{count} datagrams")
    return datagrams


@BATCHED
@HOST
def test_a_datagram_arrives_with_its_address_and_is_answered(
    run: Run, peer_at: PeerAt, host: str, batched: bool
) -> None:
    async def story() -> None:
        gathered = Gathered(lambda address, datagram: link.send(address, datagram[::-1]))
        link = UdpLink((host, 0), gathered, batched=batched)
        link.open(asyncio.get_running_loop())
        peer = peer_at(host)
        peer.sendto(b"\x02\x16", link.listening_on)
        assert await received(peer, 1) == [b"\x16\x02"]
        assert gathered.batches == [[(name_of(peer), b"\x02\x16")]]
        assert address_text(name_of(peer)).endswith(f":{peer.getsockname()[1]}")
        assert (link.counters.received, link.counters.sent) == (1, 1)
        link.close()

    run(story())


@BATCHED
@HOST
def test_a_burst_comes_in_order_in_batches_and_its_answers_leave_in_order(
    run: Run, peer_at: PeerAt, host: str, batched: bool
) -> None:
    async def story() -> None:
        gathered = Gathered(lambda address, datagram: link.send(address, datagram))
        link = UdpLink((host, 0), gathered, batched=batched)
        link.open(asyncio.get_running_loop())
        peer = peer_at(host)
        burst = [number.to_bytes(2, "big") * (number % 50) for number in range(200)]
        for datagram in burst:
            peer.sendto(datagram, link.listening_on)
        assert await received(peer, len(burst)) == burst
        assert gathered.datagrams == burst
        assert max(map(len, gathered.batches)) == DATAGRAMS_PER_CALL
        link.close()

    run(story())


@BATCHED
def test_the_loop_has_its_turn_after_four_batches(run: Run, peer_at: PeerAt, batched: bool) -> None:
    async def story() -> None:
        turns: list[int] = []

        def count(batch: list[tuple[bytes, bytes]]) -> None:
            turns[-1] += len(batch)

        def next_turn() -> None:
            turns.append(0)
            again.append(loop.call_soon(next_turn))

        loop, again = asyncio.get_running_loop(), list[asyncio.Handle]()
        link = UdpLink(("127.0.0.1", 0), count, batched=batched)
        link.open(loop)
        peer = peer_at("127.0.0.1")
        for _ in range(CALLS_PER_TURN * DATAGRAMS_PER_CALL + 100):
            peer.sendto(b"x", link.listening_on)
        next_turn()
        await eventually(lambda: sum(turns) == 356, "all datagrams")
        again[-1].cancel()
        assert [turn for turn in turns if turn] == [256, 100]
        link.close()

    run(story())


@BATCHED
@HOST
def test_a_datagram_longer_than_allowed_is_dropped_whole_and_counted(
    run: Run, peer_at: PeerAt, host: str, batched: bool
) -> None:
    async def story() -> None:
        gathered = Gathered()
        link = UdpLink((host, 0), gathered, batched=batched, datagram_bytes_max=100)
        link.open(asyncio.get_running_loop())
        peer = peer_at(host)
        for length in (100, 101, 0, 5000, 99):
            peer.sendto(bytes(length), link.listening_on)
        await eventually(lambda: link.counters.received == 5, "five datagrams")
        assert list(map(len, gathered.datagrams)) == [100, 0, 99]
        assert link.counters.truncated == 2
        link.close()

    run(story())


@BATCHED
@pytest.mark.parametrize(
    ("host", "port", "datagram", "failure"),
    [
        ("255.255.255.255", 9, b"x", SendFailure.REFUSED),
        ("127.0.0.1", 9, bytes(65_530), SendFailure.TOO_LARGE),
        ("127.0.0.1", 9, bytes(70_000), SendFailure.TOO_LARGE),  # more than a slot holds
        ("127.0.0.1", 0, b"x", SendFailure.OTHER),
    ],
)
def test_a_datagram_that_cannot_be_sent_is_counted_and_the_rest_leaves(
    run: Run, peer_at: PeerAt, batched: bool, host: str, port: int, datagram: bytes,
    failure: SendFailure,
) -> None:  # fmt: skip
    async def story() -> None:
        link = UdpLink(("127.0.0.1", 0), Gathered(), batched=batched, datagram_bytes_max=65_535)
        link.open(asyncio.get_running_loop())
        peer = peer_at("127.0.0.1")
        good, bad = name_of(peer), address_of(host, port)
        for number in range(100):
            link.send(good, bytes([number]))
            if number in (0, 1, 30, 59, 99):  # one in the last slot of a batch
                link.send(bad, datagram)
        link.flush()
        assert await received(peer, 100) == [bytes([number]) for number in range(100)]
        assert link.counters.sent == 100
        assert link.counters.send_failed[failure] == 5
        assert sum(link.counters.send_failed.values()) == 5
        link.close()

    run(story())


@BATCHED
def test_a_full_batch_leaves_by_itself_and_less_waits_for_the_flush(
    run: Run, peer_at: PeerAt, batched: bool
) -> None:
    async def story() -> None:
        link = UdpLink(("127.0.0.1", 0), Gathered(), batched=batched)
        link.open(asyncio.get_running_loop())
        peer = peer_at("127.0.0.1")
        for _ in range(DATAGRAMS_PER_CALL + 1):
            link.send(name_of(peer), b"x")
        assert link.counters.sent == DATAGRAMS_PER_CALL
        link.flush()
        assert link.counters.sent == DATAGRAMS_PER_CALL + 1
        link.close()

    run(story())


def test_a_full_socket_buffer_is_waited_for_and_the_queue_has_an_end(run: Run) -> None:
    """Loopback never fills a UDP socket's buffer, so a Unix socket takes its descriptor here."""
    name = b"\0u" + os.urandom(4)
    address = socket.AF_UNIX.to_bytes(2, "little") + name

    async def story() -> None:
        loop = asyncio.get_running_loop()
        link = UdpLink(("127.0.0.1", 0), Gathered(), batched=True)
        link.open(loop)
        assert link._socket is not None
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
        ):
            receiver.bind(name + bytes(8))
            receiver.setblocking(False)
            loop.remove_reader(link._socket)
            os.dup2(sender.fileno(), link._socket.fileno())
            for number in range(SEND_QUEUE_MAX + 500):
                link.send(address, number.to_bytes(2, "big"))
            link.flush()
            assert len(link._queue) == SEND_QUEUE_MAX
            arrived = await received(receiver, SEND_QUEUE_MAX + link.counters.sent)
        assert arrived == [number.to_bytes(2, "big") for number in range(len(arrived))]
        assert link.counters.send_failed[SendFailure.BUSY] == SEND_QUEUE_MAX + 500 - len(arrived)
        link.close()

    run(story())


@BATCHED
def test_an_exception_of_the_callback_does_not_make_the_link_deaf(
    peer_at: PeerAt, batched: bool
) -> None:
    async def story() -> None:
        loop, raised = asyncio.get_running_loop(), list[object]()
        loop.set_exception_handler(lambda _, context: raised.append(context["exception"]))
        handed: list[bytes] = []

        def fragile(batch: list[tuple[bytes, bytes]]) -> None:
            handed.extend(datagram for _, datagram in batch)
            if any(datagram == b"poison" for _, datagram in batch):
                raise RuntimeError("a defect of ours")

        link = UdpLink(("127.0.0.1", 0), fragile, batched=batched)
        link.open(loop)
        sensors = [peer_at("127.0.0.1") for _ in range(60)]
        await until_it_waits_between_looks(link, sensors)
        sensors[0].sendto(b"poison", link.listening_on)
        await eventually(lambda: raised, "the exception")
        sensors[0].sendto(b"after", link.listening_on)
        await eventually(lambda: b"after" in handed, "the datagram after it")
        assert [type(error) for error in raised] == [RuntimeError]
        link.close()

    asyncio.run(story())


async def until_it_waits_between_looks(
    link: UdpLink, sensors: list[socket.socket], *, at_once: int = 4
) -> None:
    """Sensor traffic, each far slower than the limit of patience, until the tick sets in."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 20
    for first in itertools.cycle(range(0, len(sensors), at_once)):
        assert loop.time() < deadline, "the tick never set in"
        for sensor in sensors[first : first + at_once]:
            sensor.sendto(b"reading", link.listening_on)
        for _ in range(3):  # it looks at them, and waits or does not
            await asyncio.sleep(0)
            if is_between_looks(link):
                return
        await asyncio.sleep(0.001)  # the sensors' own pace


def is_between_looks(link: UdpLink) -> bool:
    fine = link._fine_timer
    return link._next_read is not None or (fine is not None and fine._is_set)


@BATCHED
@pytest.mark.parametrize(("tick_ms_max", "count", "at_once"), [(3, 60, 4), (0.9, 400, 32)])
def test_between_looks_nothing_is_lost_and_silence_ends_the_looking(
    run: Run, peer_at: PeerAt, batched: bool, tick_ms_max: float, count: int, at_once: int
) -> None:
    async def story() -> None:
        gathered = Gathered()
        link = UdpLink(("127.0.0.1", 0), gathered, batched=batched, tick_ms_max=tick_ms_max)
        link.open(asyncio.get_running_loop())
        sensors = [peer_at("127.0.0.1") for _ in range(count)]
        await until_it_waits_between_looks(link, sensors, at_once=at_once)
        assert (link._next_read is None) == (tick_ms_max < 1)
        for sensor in sensors:
            sensor.sendto(b"late", link.listening_on)
        await eventually(lambda: gathered.datagrams.count(b"late") == count, "the late ones")
        await eventually(lambda: not is_between_looks(link), "no more looks")
        sensors[0].sendto(b"alone", link.listening_on)
        await eventually(lambda: b"alone" in gathered.datagrams, "the lone one")
        link.close()

    run(story())


def test_where_the_system_has_no_fine_timer_waits_are_not_fine(
    run: Run, peer_at: PeerAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        gathered = Gathered()
        link = UdpLink(("127.0.0.1", 0), gathered, tick_ms_max=0.9)
        link.open(asyncio.get_running_loop())
        sensors = [peer_at("127.0.0.1") for _ in range(400)]
        await until_it_waits_between_looks(link, sensors, at_once=32)
        assert link._fine_timer is None
        assert not link._tick.is_fine
        sensors[0].sendto(b"after", link.listening_on)
        await eventually(lambda: b"after" in gathered.datagrams, "the datagram after it")
        link.close()

    monkeypatch.setattr(fine_timer_module, "_LIBC", SimpleNamespace())  # has no such call
    run(story())


@pytest.mark.parametrize(("tick_ms_max", "count", "at_once"), [(3, 60, 4), (0.9, 400, 32)])
def test_the_link_can_be_closed_between_looks(
    run: Run, peer_at: PeerAt, tick_ms_max: float, count: int, at_once: int
) -> None:
    async def story() -> None:
        gathered = Gathered()
        link = UdpLink(("127.0.0.1", 0), gathered, tick_ms_max=tick_ms_max)
        link.open(asyncio.get_running_loop())
        sensors = [peer_at("127.0.0.1") for _ in range(count)]
        await until_it_waits_between_looks(link, sensors, at_once=at_once)
        link.close()
        assert not is_between_looks(link)
        found = len(gathered.datagrams)
        for sensor in sensors:
            sensor.sendto(b"late", link.listening_on)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(gathered.datagrams) == found

    run(story())


@BATCHED
def test_the_link_can_be_closed_from_its_callback_and_twice(
    run: Run, peer_at: PeerAt, batched: bool
) -> None:
    async def story() -> None:
        calls: list[int] = []

        def close(batch: list[tuple[bytes, bytes]]) -> None:
            calls.append(len(batch))
            link.send(batch[0][0], b"bye")
            link.close()

        link = UdpLink(("127.0.0.1", 0), close, batched=batched)
        link.open(asyncio.get_running_loop())
        peer = peer_at("127.0.0.1")
        for _ in range(DATAGRAMS_PER_CALL + 1):
            peer.sendto(b"x", link.listening_on)
        assert await received(peer, 1) == [b"bye"]
        assert calls == [DATAGRAMS_PER_CALL]
        assert link.counters.receive_failed == 0  # the descriptor may be another's by now
        link.close()
        link.send(name_of(peer), b"too late")
        link.flush()
        assert link.counters.sent == 1

    run(story())


@BATCHED
def test_what_the_kernel_had_to_drop_is_known(run: Run, peer_at: PeerAt, batched: bool) -> None:
    async def story() -> None:
        gathered = Gathered()
        link = UdpLink(("127.0.0.1", 0), gathered, batched=batched, receive_buffer_bytes=2048)
        link.open(asyncio.get_running_loop())
        peer = peer_at("127.0.0.1")
        for _ in range(1000):
            peer.sendto(bytes(100), link.listening_on)
        dropped = link.read_receive_buffer_drops()
        assert 0 < dropped < 1000
        await eventually(lambda: link.counters.received == 1000 - dropped, "what was kept")
        link.close()
        assert link.counters.receive_buffer_drops == dropped

    run(story())


def test_ipv4_and_ipv6_listen_on_the_same_port(run: Run, peer_at: PeerAt) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        over_4, over_6 = Gathered(), Gathered()
        link_4 = UdpLink(("0.0.0.0", 0), over_4)
        link_4.open(loop)
        port = link_4.listening_on[1]
        link_6 = UdpLink(("::", port), over_6)
        link_6.open(loop)
        peer_at("127.0.0.1").sendto(b"four", ("127.0.0.1", port))
        peer_at("::1").sendto(b"six", ("::1", port))
        await eventually(lambda: over_4.batches and over_6.batches, "both")
        assert (over_4.datagrams, over_6.datagrams) == ([b"four"], [b"six"])
        link_4.close()
        link_6.close()

    run(story())
