"""Peers are answered from the address that they wrote to."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from mmap import mmap

import pytest

from gateway.transports.udp.datagrams import BatchedDatagrams, SingleDatagrams, datagram_calls
from gateway.transports.udp.mmsg import DATAGRAMS_PER_CALL
from gateway.transports.udp.socket import open_udp_socket
from gateway.transports.udp.sources import IPV4, IPV6, Sources, sources_of
from tests.support.own_network import run_in_own_network

PEERS = tuple(b"peer%04d" % number for number in range(10))


@pytest.mark.parametrize(
    "story",
    [
        "each_address_answers_for_itself",
        "a_peer_may_turn_to_another_address",
        "an_address_that_went_is_replaced_by_another",
        "addresses_come_to_a_machine_with_one",
        "a_gateway_is_found_and_reached_by_each_of_its_addresses",
    ],
)
def test_on_a_machine_with_several_addresses(story: str) -> None:
    run_in_own_network("tests.transports.source_stories", story)


@pytest.fixture(params=[True, False], ids=["batched", "single"])
def batched(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def opened() -> Iterator[socket.socket]:
    with open_udp_socket(("0.0.0.0", 0), 65_536) as one:
        yield one


def sources(opened: socket.socket, peers_max: int = 100) -> Sources | None:
    return sources_of(opened, peers_max=peers_max, batch_max=DATAGRAMS_PER_CALL)


def test_connected_peers_of_two_addresses_hear_their_answers_from_one_batch(
    opened: socket.socket, batched: bool
) -> None:
    calls = datagram_calls(opened, datagram_bytes_max=100, batched=batched, sources=sources(opened))
    port = opened.getsockname()[1]
    peers = []
    for number in range(20):
        peers.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        peers[-1].settimeout(10)
        peers[-1].connect((f"127.0.0.{1 + number % 3}", port))
    for _ in range(3):
        for number, peer in enumerate(peers):
            peer.send(bytes((number,)))
        count, batch = calls.receive()
        assert count == len(peers)
        assert {len(address) for address, _ in batch} == {8}
        assert calls.send(batch[::-1]) == (len(peers), 0)
        for number, peer in enumerate(peers):
            assert peer.recv(10) == bytes((number,))
            if number % 2:
                peer.connect((f"127.0.0.{1 + number % 2}", port))
    for peer in peers:
        peer.close()


def test_a_listener_on_one_address_asks_nothing() -> None:
    for host in ("127.0.0.1", "::1"):
        with open_udp_socket((host, 0), 65_536) as one:
            assert sources(one) is None


def test_a_kernel_without_the_option_answers_as_it_chooses(
    monkeypatch: pytest.MonkeyPatch, batched: bool, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(IPV4, "option", 250)
    caplog.set_level("DEBUG")
    with open_udp_socket(("0.0.0.0", 0), 65_536) as one:
        assert "no socket option for where a datagram was sent to here, it goes without" in (
            caplog.text
        )
        assert sources(one) is None
        calls = datagram_calls(one, datagram_bytes_max=100, batched=batched)
        assert isinstance(calls, BatchedDatagrams if batched else SingleDatagrams)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            peer.settimeout(10)
            peer.sendto(b"a", ("127.0.0.2", one.getsockname()[1]))
            _, batch = calls.receive()
            assert calls.send(batch) == (1, 0)
            assert peer.recvfrom(10) == (b"a", ("127.0.0.1", one.getsockname()[1]))


def controls(*addresses: str, interface: int = 2) -> mmap:
    made = mmap(-1, IPV4.control_bytes * DATAGRAMS_PER_CALL)
    for number, address in enumerate(addresses):
        start = number * IPV4.control_bytes
        data = socket.inet_aton(address)
        told = IPV4.header + interface.to_bytes(4, "little") + data + data
        made[start : start + len(told)] = told
    return made


class Machine:
    """Its only address."""

    def __init__(self, only: str | None = None) -> None:
        self.only = only

    def __call__(self) -> bytes | None:
        return None if self.only is None else socket.inet_aton(self.only)


def made(machine: Machine, peers_max: int = 100) -> Sources:
    return Sources(IPV4, peers_max=peers_max, batch_max=DATAGRAMS_PER_CALL, only_address=machine)


def test_a_table_that_is_full_forgets_those_heard_longest_ago() -> None:
    kept = made(Machine(), peers_max=3)
    for peer in PEERS:
        kept.received((peer,), controls("192.0.2.1"))
    known = [source is not None for source in kept.of(PEERS)]
    assert known == [False] * 4 + [True] * 6
    kept.received(PEERS[:1], controls("192.0.2.9"))
    assert kept.of(PEERS[:1]) == [socket.inet_aton("192.0.2.9")]
    assert len(kept.recent) + len(kept.former) <= 8
    assert kept.forget(PEERS[5]) == socket.inet_aton("192.0.2.1")
    assert kept.of((PEERS[5],)) == [None]
    assert kept.forget(PEERS[5]) is None


def test_with_one_address_what_came_over_a_network_needs_no_entry() -> None:
    machine = Machine("192.0.2.1")
    kept = made(machine)
    kept.received(PEERS[:2], controls("192.0.2.1", "192.0.2.1"))
    assert kept.usual == controls("192.0.2.1")[: IPV4.control_bytes] * DATAGRAMS_PER_CALL
    assert not kept.is_used
    machine.only = None
    kept.look_at_addresses()
    assert not kept.usual
    kept.received(PEERS[:1], controls("192.0.2.1"))
    assert kept.of(PEERS[:2]) == [socket.inet_aton("192.0.2.1"), None]


@pytest.mark.parametrize(
    ("addresses", "interface"),
    [(["127.0.0.1"], 1), (["192.0.2.1"], 1), (["192.0.2.7"], 2), (["192.0.2.1", "192.0.2.7"], 2)],
)
def test_what_came_otherwise_has_one(addresses: list[str], interface: int) -> None:
    kept = made(Machine("192.0.2.1"))
    peers = PEERS[: len(addresses)]
    kept.received(peers, controls(*addresses, interface=interface))
    assert kept.of(peers) == list(map(socket.inet_aton, addresses))


def test_an_address_of_ipv6_names_the_interface_only_where_it_has_to() -> None:
    def sent(address: str) -> tuple[str, int]:
        told = IPV6.information(socket.inet_pton(socket.AF_INET6, address) + b"\7\0\0\0")
        return socket.inet_ntop(socket.AF_INET6, told[:16]), told[16]

    assert sent("2001:db8::1") == ("2001:db8::1", 0)
    assert sent("fe80::1") == ("fe80::1", 7)
    assert sent("ff02::1") == ("::", 0)  # a group is no address to send from


def test_where_there_is_no_way_the_address_is_kept() -> None:
    run_in_own_network("tests.transports.source_stories", "the_way_is_missing_for_a_while")


def test_an_error_that_is_none_of_the_address_stays_one(
    opened: socket.socket, batched: bool
) -> None:
    calls = datagram_calls(
        opened, datagram_bytes_max=70_000, batched=batched, sources=sources(opened)
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.sendto(b"a", ("127.0.0.2", opened.getsockname()[1]))
        _, ((address, _),) = calls.receive()
        assert calls.send([(address, bytes(66_000))]) == (0, errno.EMSGSIZE)
