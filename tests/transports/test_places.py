"""Who may forward, and which addresses are one host."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from gateway.core.addresses import address_behind
from gateway.transports.places import (
    forwarders_within,
    host_of,
    identities,
    is_same_host,
    none_may,
    nowhere,
)
from gateway.transports.socket_address import LINE_ADDRESS, address_of


@pytest.mark.parametrize(
    ("networks", "host", "expected"),
    [
        (["10.0.0.7"], "10.0.0.7", True),
        (["10.0.0.7"], "10.0.0.8", False),
        (["10.0.0.7", "192.168.4.0/24"], "192.168.4.200", True),
        (["fe80::/10"], "fe80::1%1", True),
        (["10.0.0.0/8"], "2001:db8::1", False),
        ([], "10.0.0.7", False),
    ],
)
def test_a_forwarder_is_in_one_of_the_networks(
    networks: list[str], host: str, expected: bool
) -> None:
    may_forward = forwarders_within([ip_network(each) for each in networks])
    assert may_forward(0, address_of(host, 1883)) is expected


@pytest.mark.parametrize("host", ["10.0.0.7", "2001:db8::7"])
def test_a_host_has_many_ports_and_many_nodes(host: str) -> None:
    one, other = address_of(host, 1883), address_of(host, 4711)
    assert is_same_host(one, other)
    assert is_same_host(address_behind(one, b"\x01"), address_behind(other, b"\x02\x03"))


def test_another_host_is_another() -> None:
    assert not is_same_host(address_of("10.0.0.7", 1883), address_of("10.0.0.8", 1883))
    assert not nowhere(address_of("10.0.0.7", 1883), address_of("10.0.0.7", 1884))


def test_what_is_no_address_is_nowhere() -> None:
    assert not is_same_host(b"", address_of("10.0.0.7", 1883))


def test_a_host_is_the_same_on_each_link_and_a_line_is_one_of_its_own() -> None:
    one = address_of("10.0.0.7", 1883)
    assert host_of(0, one) == host_of(1, address_of("10.0.0.7", 4711)) == bytes((10, 0, 0, 7))
    assert host_of(0, address_behind(one, b"\x02")) == host_of(0, one)
    assert host_of(0, address_of("::ffff:10.0.0.7", 1883)) == host_of(0, one), "IPv4 in IPv6"
    assert host_of(0, address_of("fe80::1%1", 1883)) != host_of(0, address_of("fe80::1%2", 1883))
    assert host_of(0, LINE_ADDRESS) == host_of(0, address_behind(LINE_ADDRESS, b"\x02"))
    assert host_of(0, LINE_ADDRESS) != host_of(1, LINE_ADDRESS)
    assert host_of(0, b"") == host_of(1, b"")


# On a serial line


@pytest.mark.parametrize("networks", [[], ["10.0.0.0/8"]])
def test_who_is_on_a_line_may_forward_whatever_networks_are_listed(networks: list[str]) -> None:
    may_forward = forwarders_within([ip_network(each) for each in networks])
    assert may_forward(1, LINE_ADDRESS)
    assert not none_may(1, LINE_ADDRESS)


@pytest.mark.parametrize("node_octets", [0, 1, 6, 26, 252])
def test_all_nodes_on_a_line_are_at_one_place(node_octets: int) -> None:
    node = address_behind(LINE_ADDRESS, bytes(node_octets))
    assert is_same_host(LINE_ADDRESS, node)
    assert is_same_host(node, address_behind(LINE_ADDRESS, b"\x02\x03"))
    for host in ("10.0.0.7", "2001:db8::7"):
        assert not is_same_host(address_of(host, 1883), node)


@pytest.mark.parametrize(
    ("link", "address", "identity"),
    [
        (0, address_of("10.0.0.7", 1883), "anonymous@udp0"),
        (0, address_of("2001:db8::7", 1883), "anonymous@udp0"),
        (0, address_behind(address_of("10.0.0.7", 1883), b"\x0a\x1b"), "forwarder:udp0/0a1b"),
        (0, address_behind(address_of("2001:db8::7", 1883), b"\x07"), "forwarder:udp0/07"),
        (1, LINE_ADDRESS, "serial:serial0"),
        (1, address_behind(LINE_ADDRESS, b"\x07"), "forwarder:serial0/07"),
        (2, LINE_ADDRESS, "serial:"),
        (0, b"", ""),
    ],
)
def test_a_peer_is_known_by_where_it_is(link: int, address: bytes, identity: str) -> None:
    assert identities(["udp0", "serial0"])(link, address) == identity
