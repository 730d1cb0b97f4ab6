"""A sensor that searches gateways by multicast, byte by byte, on sockets of its own."""

from __future__ import annotations

import itertools
import socket
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from hil.rig.ports import free_udp_port

PATIENCE_S = 200.0
_RECEIVE_TTL = 12  # Linux: IP_RECVTTL

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Group:
    """A multicast group on one interface of this machine."""

    host: str
    port: int
    interface: str = "lo"

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.host

    @property
    def text(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_ipv6 else f"{self.host}:{self.port}"

    @property
    def address(self) -> tuple[str, int] | tuple[str, int, int, int]:
        index = socket.if_nametoindex(self.interface)
        return (self.host, self.port, 0, index) if self.is_ipv6 else (self.host, self.port)

    def config(self, listen: str, hops: int = 0) -> str:
        """A listener that is in this group, which is not spoken to beyond this machine."""
        return (
            f'[[udp]]\nlisten = "{listen}"\nmulticast = "{self.text}"\n'
            f'multicast_interface = "{self.interface}"\nmulticast_hops = {hops}\n'
        )


def group_on_loopback() -> Group:
    """That no other test has."""
    return Group(f"239.77.83.{next(_numbers)}", free_udp_port())


def ipv6_group() -> Group | None:
    """On an interface by which IPv6 multicast is possible here; None if this machine has none."""
    for _, name in socket.if_nameindex():
        group = Group(f"ff05::4d51:{next(_numbers):x}", free_udp_port(), name)
        try:
            with Seeker(group) as seeker:
                seeker.say(b"\2\0", 0.5)
                return group
        except OSError:
            continue
    return None


class Seeker:
    """Hears the group, and speaks to it and to gateways from an address of its own."""

    def __init__(self, group: Group, speaks_from: str = "127.0.0.1") -> None:
        """`speaks_from`: for an IPv4 group; to an IPv6 group from any address that fits."""
        self.group = group
        self._speaks_from = speaks_from
        family = socket.AF_INET6 if group.is_ipv6 else socket.AF_INET
        self._hearing = socket.socket(family, socket.SOCK_DGRAM)
        self._speaking = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._join()
        except OSError:
            self.close()
            raise

    def _join(self) -> None:
        group, hearing, speaking = self.group, self._hearing, self._speaking
        index = socket.if_nametoindex(group.interface)
        hearing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        hearing.bind(group.address)
        if group.is_ipv6:
            number = socket.inet_pton(socket.AF_INET6, group.host)
            joined = number + struct.pack("=I", index)
            hearing.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, joined)
            speaking.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
            speaking.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 0)
            speaking.bind(("::", 0))
        else:
            joined = struct.pack("=4s4si", socket.inet_aton(group.host), bytes(4), index)
            hearing.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
            hearing.setsockopt(socket.IPPROTO_IP, _RECEIVE_TTL, 1)
            speaking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, joined)
            speaking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            speaking.bind((self._speaks_from, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._hearing.close()
        self._speaking.close()

    def say(self, datagram: bytes, patience_s: float = PATIENCE_S) -> None:
        """To the group; heard here before this returns, so it came to all others as well."""
        self._speaking.sendto(datagram, self.group.address)
        self._hearing.settimeout(patience_s)
        port = self._speaking.getsockname()[1]
        while self._hearing.recvfrom(2048)[1][1] != port:
            pass

    def say_to(self, host: str, port: int, datagram: bytes) -> None:
        self._speaking.sendto(datagram, (host, port))

    def answer(self, patience_s: float = PATIENCE_S) -> tuple[bytes, int]:
        """What comes to our own address, and the port that it comes from."""
        self._speaking.settimeout(patience_s)
        datagram, sender = self._speaking.recvfrom(2048)
        return datagram, sender[1]

    def has_no_answer(self) -> bool:
        """Up to now."""
        self._speaking.setblocking(False)
        try:
            self._speaking.recvfrom(2048)
        except BlockingIOError:
            return True
        return False

    def overhear(self, patience_s: float = PATIENCE_S) -> tuple[bytes, tuple[str, int]]:
        """What comes to the group from others, and from where."""
        self._hearing.settimeout(patience_s)
        datagram, sender = self._hearing.recvfrom(2048)
        return datagram, (sender[0], sender[1])

    def overhear_hops(self) -> int:
        """How far what comes to the group next may still go. IPv4 only."""
        self._hearing.settimeout(PATIENCE_S)
        _, ((_, _, octets),), _, _ = self._hearing.recvmsg(2048, 64)
        (hops,) = struct.unpack("=i", octets)
        assert isinstance(hops, int)
        return hops

    def forget(self) -> None:
        """What came to the group and was not read."""
        self._hearing.setblocking(False)
        try:
            while True:
                self._hearing.recvfrom(2048)
        except BlockingIOError:
            return
