"""Multicast as the kernel has it: on which interface a group is joined, and with which options.

An interface is given by its name, by one of its addresses, or by nobody: then it is that of the
listening address, and where that is "all" the routes decide. It may not be there yet: everything
here is asked again later, and says in one sentence what is missing.
"""

from __future__ import annotations

import errno
import socket
import struct
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from gateway.transports.errors import LinkError
from gateway.transports.options import set_option
from gateway.transports.socket_address import SocketAddress, address_of, socket_address

HostPort = tuple[str, int]

_MREQN = struct.Struct("=4s4si")  # group, address, index
_IPV6_MREQ = struct.Struct("=16sI")  # group, index
_INDEX = struct.Struct("=I")
_NO_ADDRESS = bytes(4)
_IP_MULTICAST_ALL, _IPV6_MULTICAST_ALL = 49, 29  # not in Python's socket module
_HOPS_UNSET = 1  # what the kernel has where none is given
SHARED_PORT = "a port that multicast groups share"
_ADDRESSES_OF_IPV6 = Path("/proc/net/if_inet6")


@dataclass(frozen=True, slots=True)
class Place:
    """Where datagrams to a group are sent, as `IP_ADD_MEMBERSHIP` and the like take it, and from
    which of our addresses.
    """

    group: SocketAddress
    membership: bytes
    source: HostPort

    @property
    def is_ipv6(self) -> bool:
        return len(self.group) == 4


def find_place(group: HostPort, listening_on: HostPort, interface: str | None) -> Place:
    """Raises LinkError while there is no way to the group."""
    host, port = group
    if ":" in host:
        index = _index(interface, listening_on[0])
        membership = _IPV6_MREQ.pack(socket.inet_pton(socket.AF_INET6, host), index)
        address: SocketAddress = (host, port, 0, index)
    else:
        ours, index = _ours(interface, listening_on[0])
        membership = _MREQN.pack(socket.inet_aton(host), ours, index)
        address = (host, port)
    try:
        source = _source(address, membership, listening_on)
        if ip_address(source[0]).is_unspecified:  # up, and DHCP has not answered yet
            raise OSError(errno.EADDRNOTAVAIL, "no address")
    except OSError as error:
        raise LinkError(_explain(error, interface)) from error
    return Place(address, membership, source)


def open_group_socket(place: Place, interface: str | None) -> socket.socket:
    """A non-blocking socket that receives what is sent to the group on one interface, or LinkError.

    It is bound to the group's address, so that it receives nothing else; so may others be.
    """
    family = socket.AF_INET6 if place.is_ipv6 else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        set_option(opened, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1, SHARED_PORT)
        receive_no_other_groups(opened)
        opened.bind(place.group)
        if place.is_ipv6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, place.membership)
        else:
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, place.membership)
    except OSError as error:
        opened.close()
        raise LinkError(_explain(error, interface)) from error
    return opened


def send_groups_through(sender: socket.socket, place: Place) -> None:
    """What the socket sends to groups leaves by this interface, and comes to this machine too.

    Raises OSError.
    """
    level, option, chosen = socket.IPPROTO_IP, socket.IP_MULTICAST_IF, place.membership
    loop, is_chosen = socket.IP_MULTICAST_LOOP, any(place.membership[len(_NO_ADDRESS) :])
    if place.is_ipv6:
        level, option = socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF
        loop = socket.IPV6_MULTICAST_LOOP
        chosen = place.membership[-_INDEX.size :]
        is_chosen = any(chosen)
    if is_chosen:
        sender.setsockopt(level, option, chosen)
    else:
        set_option(sender, level, option, chosen, "the interface that the routes say")
    set_option(sender, level, loop, 1, "groups that programs of this machine are in")


def send_to_group(sender: socket.socket, place: Place, datagram: bytes, hops: int) -> None:
    """Raises OSError."""
    level, option = socket.IPPROTO_IP, socket.IP_MULTICAST_TTL
    if place.is_ipv6:
        level, option = socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS
    if hops >= _HOPS_UNSET:
        set_option(sender, level, option, hops, "how far a group is spoken to")
    else:
        sender.setsockopt(level, option, hops)
    sender.sendto(datagram, place.group)


def receive_no_other_groups(listener: socket.socket) -> None:
    """Linux brings a socket what is sent to groups that any program here has joined, unless this is
    set. For IPv6 it can be set since Linux 4.20; before, the filter for broadcasts has to do.
    """
    level, option = socket.IPPROTO_IP, _IP_MULTICAST_ALL
    if listener.family == socket.AF_INET6:
        level, option = socket.IPPROTO_IPV6, _IPV6_MULTICAST_ALL
    set_option(listener, level, option, 0, "groups of other programs")


# Interfaces


def _ours(interface: str | None, listening_host: str) -> tuple[bytes, int]:
    """For IPv4: one of our addresses, or the number of an interface, or neither."""
    given = interface or listening_host
    if _is_address(given):
        return socket.inet_aton(given), 0
    return _NO_ADDRESS, _index_by_name(given)


def _index(interface: str | None, listening_host: str) -> int:
    """For IPv6: the number of an interface, 0 for the one that the routes say."""
    given = interface or listening_host
    if not _is_address(given):
        return _index_by_name(given)
    address = ip_address(given.partition("%")[0])
    if address.is_unspecified:
        return 0
    index = _index_by_address(address.packed.hex())
    if index is None:
        raise LinkError(f"no interface has the address {given} now; `ip address` shows all")
    return index


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _index_by_name(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError as error:
        raise LinkError(
            f"this machine has no interface {name} now; `ip link` shows those it has"
        ) from error


def _index_by_address(digits: str) -> int | None:
    try:
        lines = _ADDRESSES_OF_IPV6.read_text(encoding="ascii").splitlines()
    except OSError:  # a kernel without IPv6
        return None
    found = (line.split() for line in lines)
    return next((int(index, 16) for address, index, *_ in found if address == digits), None)


def _source(group: SocketAddress, membership: bytes, listening_on: HostPort) -> HostPort:
    """The address that the kernel gives to what we send to the group. Nothing is sent."""
    host, port = listening_on
    own = socket_address(address_of(host, 0))
    family = socket.AF_INET6 if len(own) == 4 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        send_groups_through(probe, Place(group, membership, listening_on))
        probe.bind(own)
        probe.connect(group)
        return probe.getsockname()[0].partition("%")[0], port


def _explain(error: OSError, interface: str | None) -> str:
    where = "" if interface is None else f" on {interface}"
    match error.errno:
        case errno.ENETUNREACH | errno.EHOSTUNREACH | errno.ENETDOWN | errno.ENODEV:
            advice = "`ip link` shows whether it is up"
            if interface is None:
                advice = "name one with multicast_interface, or see `ip route`"
            return f"no interface{where} leads to the group now; {advice}"
        case errno.EADDRNOTAVAIL:
            return f"no interface{where} has an address for it now; `ip address` shows all"
        case errno.EADDRINUSE:
            return "another program has this port for itself; give the group another port"
        case errno.ENOBUFS:
            return "too many groups are joined; raise net.ipv4.igmp_max_memberships"
        case _:
            return f"the kernel refuses it{where}: {error.strerror or error}"
