"""What a raw address says of the place where somebody is: who may forward, who is on one host.

Limit: answers for `KNOWN_MAX` forwarders are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address

from gateway.core.addresses import split, unprotected
from gateway.transports.socket_address import (
    IPV4_BYTES,
    IPV4_FAMILY,
    IPV6_BYTES,
    LINE_ADDRESS,
    host_part,
    socket_address,
)

KNOWN_MAX = 1024

Network = IPv4Network | IPv6Network


def forwarders_within(networks: Sequence[Network]) -> Callable[[int, bytes], bool]:
    """Whether an address of a link is in one of these networks. Who is on a serial line is where
    the configuration says, and may always.
    """

    @lru_cache(KNOWN_MAX)
    def may_forward(_link: int, address: bytes) -> bool:
        if address == LINE_ADDRESS:
            return True
        host = ip_address(socket_address(address)[0].partition("%")[0])
        return any(host in network for network in networks)

    return may_forward


def identities(link_names: Sequence[str]) -> Callable[[int, bytes], str]:
    """How a peer is known: `sender:ID` if it protects its packets; else by where it is,
    `anonymous@LINK`, `serial:LINK` or `forwarder:LINK/NODE`. Ids are in hexadecimal digits.
    `link_names`: those of links as they are numbered.
    """

    def identity_of(link: int, address: bytes) -> str:
        name = link_names[link] if 0 <= link < len(link_names) else ""
        sender_id = sender_of(link, address)
        if sender_id:
            return f"sender:{sender_id.hex()}"
        for size in (len(LINE_ADDRESS), IPV4_BYTES, IPV6_BYTES):
            is_line = address.startswith(LINE_ADDRESS)
            if is_line is not (size == len(LINE_ADDRESS)):
                continue
            if len(address) == size:
                return f"serial:{name}" if is_line else f"anonymous@{name}"
            behind = split(address, size)
            if behind is not None:
                return f"forwarder:{name}/{behind[1].hex()}"
        return ""

    return lru_cache(KNOWN_MAX)(identity_of)


def plain_bytes(address: bytes) -> int:
    """Of the transport's own address, with which each begins."""
    if address.startswith(LINE_ADDRESS):
        return len(LINE_ADDRESS)
    return IPV4_BYTES if address.startswith(IPV4_FAMILY) else IPV6_BYTES


def sender_of(_link: int, address: bytes) -> bytes:
    """The sender id of a peer that protects its packets; empty for others."""
    return unprotected(address, plain_bytes(address))[1]


def none_may(_link: int, _address: bytes) -> bool:
    """For `forwarders.allow = false`."""
    return False


def nowhere(_former: bytes, _address: bytes) -> bool:
    """For `rebind_sleepers = "never"`."""
    return False


def is_same_host(former: bytes, address: bytes) -> bool:
    """Whether only the port differs, or the node behind one forwarder or on one serial line. Both
    are addresses of one link.
    """
    return host_of(0, former) == host_of(0, address)


def host_of(link: int, address: bytes) -> bytes:
    """The host without the port, that of the forwarder for a node behind one, and one for all on a
    serial line. An IP address is the same host on whichever link it comes.
    """
    if address.startswith(LINE_ADDRESS):
        return b"line %d" % link
    address = unprotected(address, plain_bytes(address))[0]
    for size in (IPV4_BYTES, IPV6_BYTES):
        if len(address) == size or split(address, size) is not None:
            return host_part(address[:size])
    return b""
