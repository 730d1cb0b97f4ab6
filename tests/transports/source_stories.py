"""A listener on all addresses of a machine with several, in a network of its own: what its peers
hear, whose sockets are connected to the address that they write to and hear no other.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import aiomqtt

from gateway.transports.udp.link import SendFailure, UdpLink
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.support.application import application
from tests.support.own_network import FarNetwork, give, ip, switch, take

PATIENCE_S = 200.0
OURS, VIRTUAL, ON_LOOPBACK, THEIRS = "10.9.0.1", "10.9.0.100", "10.8.0.1", "10.9.0.2"
OURS_6, VIRTUAL_6, THEIRS_6 = "fd09::1", "fd09::100", "fd09::2"
LOCAL_6, THEIR_LOCAL_6 = "fe80::1", "fe80::2"
GROUP, PORT = "239.77.83.9", 1885
SEARCHGW, GWINFO, ADVERTISE = b"\3\1\0", b"\3\2\1", b"\5\0\1\0\1"


@contextmanager
def cable() -> Iterator[FarNetwork]:
    switch("lo", on=True)
    far = FarNetwork(
        near=(f"{OURS}/24", f"{VIRTUAL}/32", f"{OURS_6}/64", f"{VIRTUAL_6}/128", f"{LOCAL_6}/64"),
        far=(f"{THEIRS}/24", f"{THEIRS_6}/64", f"{THEIR_LOCAL_6}/64"),
    )
    give("lo", f"{ON_LOOPBACK}/32")
    far.ip("route", "add", f"{ON_LOOPBACK}/32", "via", OURS)
    try:
        yield far
    finally:
        far.close()


class Echo:
    """A link that answers what it hears."""

    def __init__(self, host: str, *, batched: bool) -> None:
        self.heard: list[bytes] = []  # addresses of peers
        self.link = UdpLink((host, 0), self._answer, batched=batched)
        self.link.open(asyncio.get_running_loop())
        self.port = self.link.listening_on[1]

    def _answer(self, batch: list[tuple[bytes, bytes]]) -> None:
        self.heard += [address for address, _ in batch]
        self.link.send_all([(address, datagram[::-1]) for address, datagram in batch])


Open = Callable[[int, int], socket.socket]


def connected(opened: Open, host: str, port: int) -> socket.socket:
    """`host` may have the number of an interface, as in fe80::1%2."""
    peer = opened(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    number, _, scope = host.partition("%")
    peer.connect((number, port, 0, int(scope)) if scope else (number, port))
    peer.settimeout(PATIENCE_S)
    return peer


async def received(peer: socket.socket) -> bytes:
    return await asyncio.to_thread(peer.recv, 100)


async def is_answered(peer: socket.socket) -> None:
    peer.send(b"\2\x16")
    assert await received(peer) == b"\x16\2"


def both_ways(story: Callable[[FarNetwork, bool], Awaitable[None]]) -> None:
    async def within_time(batched: bool) -> None:
        with cable() as far:
            await asyncio.wait_for(story(far, batched), 200)

    for batched in (True, False):
        asyncio.run(within_time(batched))
        # The next one begins with a network as it was.
        take("lo", f"{ON_LOOPBACK}/32")


def each_address_answers_for_itself() -> None:
    both_ways(_each_address_answers_for_itself)


async def _each_address_answers_for_itself(far: FarNetwork, batched: bool) -> None:
    with ExitStack() as stack:
        for all_of_them, hosts in (
            ("0.0.0.0", (OURS, VIRTUAL, ON_LOOPBACK, OURS)),
            ("::", (OURS_6, VIRTUAL_6, f"{LOCAL_6}%{far.scope()}", OURS_6)),
        ):
            echo = Echo(all_of_them, batched=batched)
            stack.callback(echo.link.close)
            peers = [connected(far.socket, host, echo.port) for host in hosts]
            here = "127.0.0.2" if all_of_them == "0.0.0.0" else "::1"
            peers.append(connected(socket.socket, here, echo.port))
            for peer in peers:
                stack.callback(peer.close)
            for peer in peers:
                await is_answered(peer)
            # All in one batch, and then what was not asked for.
            for peer in peers:
                peer.send(b"\2\x16")
            for peer in peers:
                assert await received(peer) == b"\x16\2"
            echo.link.send_all([(address, b"news") for address in set(echo.heard)])
            for peer in peers:
                assert await received(peer) == b"news"
            assert not any(echo.link.counters.send_failed.values())


def a_peer_may_turn_to_another_address() -> None:
    both_ways(_a_peer_may_turn_to_another_address)


async def _a_peer_may_turn_to_another_address(far: FarNetwork, batched: bool) -> None:
    echo = Echo("0.0.0.0", batched=batched)
    with far.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.settimeout(PATIENCE_S)
        for host in (VIRTUAL, OURS, ON_LOOPBACK, VIRTUAL):
            peer.sendto(b"\2\x16", (host, echo.port))
            datagram, sender = await asyncio.to_thread(peer.recvfrom, 100)
            assert (datagram, sender[0]) == (b"\x16\2", host)
        assert len(set(echo.heard)) == 1
    echo.link.close()


def an_address_that_went_is_replaced_by_another() -> None:
    both_ways(_an_address_that_went_is_replaced_by_another)


async def _an_address_that_went_is_replaced_by_another(far: FarNetwork, batched: bool) -> None:
    for all_of_them, ours, virtual in (("0.0.0.0", OURS, VIRTUAL), ("::", OURS_6, VIRTUAL_6)):
        echo = Echo(all_of_them, batched=batched)
        family = socket.AF_INET if all_of_them == "0.0.0.0" else socket.AF_INET6
        with far.socket(family, socket.SOCK_DGRAM) as peer:
            peer.settimeout(PATIENCE_S)
            peer.sendto(b"\2\x16", (virtual, echo.port))
            assert (await asyncio.to_thread(peer.recvfrom, 100))[1][0] == virtual
            length = 128 if ":" in virtual else 32
            take("near", f"{virtual}/{length}")
            other = connected(far.socket, ours, echo.port)
            await is_answered(other)
            addresses = list(dict.fromkeys(echo.heard))
            echo.link.send_all([(address, b"news") for address in addresses])
            assert await received(other) == b"news"
            datagram, sender = await asyncio.to_thread(peer.recvfrom, 100)
            assert (datagram, sender[0]) == (b"news", ours)
            give("near", f"{virtual}/{length}")
            await asyncio.to_thread(_asks_until_answered, peer, virtual, echo.port)
            other.close()
        assert not any(echo.link.counters.send_failed.values())
        echo.link.close()


def _asks_until_answered(peer: socket.socket, host: str, port: int) -> None:
    """Neighbours take a while to find an IPv6 address again."""
    peer.settimeout(0.2)
    for _ in range(int(PATIENCE_S / 0.2)):
        peer.sendto(b"\2\x16", (host, port))
        with suppress(TimeoutError):
            assert peer.recvfrom(100)[1][0] == host
            return
    raise TimeoutError(host)


def the_way_is_missing_for_a_while() -> None:
    both_ways(_the_way_is_missing_for_a_while)


async def _the_way_is_missing_for_a_while(far: FarNetwork, batched: bool) -> None:
    echo = Echo("0.0.0.0", batched=batched)
    peer = connected(far.socket, VIRTUAL, echo.port)
    await is_answered(peer)
    ip("route", "del", "10.9.0.0/24", "dev", "near")
    echo.link.send_all([(echo.heard[0], b"lost")])
    assert echo.link.counters.send_failed[SendFailure.UNREACHABLE] == 1
    ip("route", "add", "10.9.0.0/24", "dev", "near")
    echo.link.send_all([(echo.heard[0], b"news")])
    assert await received(peer) == b"news"
    peer.close()
    echo.link.close()


def addresses_come_to_a_machine_with_one() -> None:
    both_ways(_addresses_come_to_a_machine_with_one)


async def _addresses_come_to_a_machine_with_one(far: FarNetwork, batched: bool) -> None:
    take("near", f"{VIRTUAL}/32")
    take("lo", f"{ON_LOOPBACK}/32")
    echo = Echo("0.0.0.0", batched=batched)
    first, local = (
        connected(far.socket, OURS, echo.port),
        [connected(socket.socket, host, echo.port) for host in ("127.0.0.1", "127.0.0.2", OURS)],
    )
    for _ in range(3):
        for peer in (first, *local):
            await is_answered(peer)
        echo.link.check_address()
    # At once, before anybody has looked.
    give("lo", f"{ON_LOOPBACK}/32")
    give("near", f"{VIRTUAL}/32")
    second, third = (connected(far.socket, host, echo.port) for host in (VIRTUAL, ON_LOOPBACK))
    for _ in range(3):
        for peer in (first, second, third, *local):
            await is_answered(peer)
        echo.link.check_address()
    take("near", f"{VIRTUAL}/32")
    take("lo", f"{ON_LOOPBACK}/32")
    echo.link.check_address()
    for peer in (first, *local):
        await is_answered(peer)
    give("lo", f"{ON_LOOPBACK}/32")
    echo.link.close()
    for peer in (first, second, third, *local):
        peer.close()


CONFIG = f"""
[[udp]]
listen = "0.0.0.0:1883"
multicast = "{GROUP}:{PORT}"
multicast_interface = "near"
[[udp]]
listen = "[::]:1883"
[discovery]
advertise_s = 1
"""


def a_gateway_is_found_and_reached_by_each_of_its_addresses() -> None:
    with (
        cable() as far,
        tempfile.TemporaryDirectory() as folder,
        Mosquitto() as broker,
        GatewayProcess(Path(folder), broker.url, CONFIG) as gateway,
    ):
        gateway.wait_until_connected()
        asyncio.run(asyncio.wait_for(_commands_arrive(far, broker), 200))
        for datagram, host in found(far):
            assert datagram in (GWINFO, ADVERTISE)
            asyncio.run(_session(connected(far.socket, host, 1883), b"found"))


async def _commands_arrive(far: FarNetwork, broker: Mosquitto) -> None:
    hosts = (OURS, VIRTUAL, ON_LOOPBACK, OURS_6, VIRTUAL_6, f"{LOCAL_6}%{far.scope()}")
    async with application(broker, "up/#") as app:
        for number, host in enumerate(hosts):
            peer = connected(far.socket, host, 1883)
            await _session(peer, b"n%d" % number)
            peer.send(b"\7\x12\x20\0\1c%d" % number)  # SUBSCRIBE with QoS 1
            subscribed = await received(peer)
            assert subscribed[1:3] == b"\x13\x20", subscribed
            await app.publish(f"c{number}", b"on", qos=1)
            command = await received(peer)
            assert command[1] == 0x0C, command
            assert command[-2:] == b"on"
            peer.send(b"\7\x0d" + command[3:7] + b"\0")
            peer.send(b"\x0a\x0c\x22up\0\7on!")  # PUBLISH with QoS 1 to a short name
            assert await received(peer) == b"\7\x0dup\0\7\0"
            await _arrived(app)


async def _session(peer: socket.socket, client_id: bytes) -> None:
    peer.send(bytes((6 + len(client_id), 4, 4, 1, 0, 60)) + client_id)
    assert await received(peer) == b"\3\5\0"


async def _arrived(app: aiomqtt.Client) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await anext(app.messages)


def found(far: FarNetwork) -> Iterator[tuple[bytes, str]]:
    """GWINFO by a search of the group and of each address, and ADVERTISE: and from where."""
    with (
        far.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking,
        far.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening,
    ):
        membership = struct.pack("=4s4si", socket.inet_aton(GROUP), socket.inet_aton(THEIRS), 0)
        asking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, membership)
        asking.settimeout(PATIENCE_S)
        for host, port in ((GROUP, PORT), (OURS, 1883), (VIRTUAL, 1883), (ON_LOOPBACK, 1883)):
            asking.sendto(SEARCHGW, (host, port))
            datagram, sender = asking.recvfrom(100)
            assert sender[0] == host or host == GROUP
            yield datagram, sender[0]
        listening.settimeout(PATIENCE_S)
        listening.bind((GROUP, PORT))
        listening.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        datagram, sender = listening.recvfrom(100)
        while datagram == SEARCHGW:
            datagram, sender = listening.recvfrom(100)
        assert sender[1] == 1883
        yield datagram, sender[0]
