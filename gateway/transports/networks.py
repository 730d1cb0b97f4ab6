"""Which hosts a listener takes datagrams from.

What is asked is bytes that the kernel wrote: nothing is made of them, as a flood from elsewhere
asks for each datagram. The time is that of one look into a set for each length of prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import IPv4Network, IPv6Network

from gateway.transports.socket_address import IPV4_BYTES

Network = IPv4Network | IPv6Network


def hosts_within(networks: Iterable[Network]) -> Callable[[bytes], bool]:
    """Whether a raw socket address is of a host in one of these networks."""
    of_ipv4, of_ipv6 = _by_prefix(networks, 4), _by_prefix(networks, 6)

    def is_within(address: bytes) -> bool:
        if len(address) == IPV4_BYTES:
            number, prefixes = int.from_bytes(address[4:8], "big"), of_ipv4
        else:
            number, prefixes = int.from_bytes(address[8:24], "big"), of_ipv6
        for host_bits, numbers in prefixes:  # noqa: SIM110 - a generator takes twice as long
            if number >> host_bits in numbers:
                return True
        return False

    return is_within


def _by_prefix(networks: Iterable[Network], version: int) -> list[tuple[int, frozenset[int]]]:
    """By how many bits of an address are the host's: the numbers of the networks."""
    found: dict[int, set[int]] = {}
    for each in networks:
        if each.version == version:
            host_bits = each.max_prefixlen - each.prefixlen
            found.setdefault(host_bits, set()).add(int(each.network_address) >> host_bits)
    return [(host_bits, frozenset(numbers)) for host_bits, numbers in sorted(found.items())]
