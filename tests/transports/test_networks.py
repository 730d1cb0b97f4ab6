"""Which hosts a listener takes datagrams from, against what ipaddress says of them."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from ipaddress import ip_address, ip_network
from random import Random

import pytest

from gateway.transports.networks import hosts_within
from gateway.transports.socket_address import address_of
from gateway.transports.udp.link import UdpLink

NETWORKS = ("10.0.0.0/8", "192.168.4.0/24", "192.168.5.7/32", "2001:db8::/32", "fd00::1", "::/127")
HOSTS = (
    "10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0", "192.168.4.1", "192.168.5.7",
    "192.168.5.6", "2001:db8::", "2001:db8:ffff::1", "2001:db9::", "fd00::1", "fd00::2", "::1",
    "::2", "::ffff:10.0.0.1",
)  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_a_host_is_within_if_one_network_has_it(count: int) -> None:
    random = Random(46)
    for _ in range(50):
        networks = [ip_network(each) for each in random.sample(NETWORKS, count)]
        is_within = hosts_within(networks)
        for host in HOSTS:
            expected = any(ip_address(host) in each for each in networks)
            assert is_within(address_of(host, random.randrange(65536))) is expected


@pytest.mark.parametrize(("network", "heard"), [("127.0.0.0/8", 2), ("10.0.0.0/8", 0)])
def test_datagrams_from_elsewhere_are_counted_and_go_no_further(network: str, heard: int) -> None:
    found: list[tuple[bytes, bytes]] = []
    within = hosts_within([ip_network(network)])
    link = UdpLink(("127.0.0.1", 0), found.extend, is_within=within)
    with closing(asyncio.new_event_loop()) as loop:
        link.open(loop)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sensor:
            for _ in range(2):
                sensor.sendto(b"\x02\x16", link.listening_on)
        link._turn()
        link.close()
    assert link.counters.received == 2
    assert len(found) == heard
    assert link.counters.outside_networks == 2 - heard
