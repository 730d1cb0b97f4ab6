"""From which of our addresses a peer is answered: the one that it wrote to.

A socket that listens on all addresses sends from the one that the route to the peer prefers. Where
a machine has several (two networks, a virtual address of keepalived), that may be another one than
the peer knows, and a peer whose socket is connected does not hear it.

- The kernel tells with each datagram where it was sent to (IP_PKTINFO, IPV6_PKTINFO); what is sent
  to that peer names it. Only the address is kept, not the interface: the routes say which way.
- A group or a broadcast is no address to send from: the kernel says which of ours stands for it,
  or chooses. It also chooses for a peer that was not heard since the start, or if ours is gone.
- At most twice `peers_max` peers are known: when so many others were heard since a peer was heard
  last, it may be forgotten, until it is heard again.
- It must cost nothing where there is nothing to choose: while this machine has one IPv4 address
  beside those of loopback, what came to it over a network needs no entry, as the kernel has no
  other to answer from. That is one comparison for a batch.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
from collections.abc import Sequence
from fcntl import ioctl
from mmap import mmap

from gateway.transports.options import set_option

# Linux, not in every Python's socket module.
_IP_PKTINFO = 8
# What sending from an address fails with that this machine has no longer.
GONE = (errno.EINVAL, errno.ENODEV, errno.EADDRNOTAVAIL, errno.ENETUNREACH)

_HEADER = struct.Struct("@Nii")  # of a control message: length, level, kind
_IN_PKTINFO = struct.Struct("=i4s4s")  # interface, which of ours it is, where it was sent to
_LOOPBACK = 1  # the number of `lo`
_LINK_LOCAL, _LINK_LOCAL_MASK = 0xFE80, 0xFFC0
_GROUP = 0xFF


class Family:
    """Where the kernel has the address, in IPv4 or IPv6. A source is as it is received: for IPv6
    with the number of the interface behind it.
    """

    def __init__(self, *, is_ipv6: bool) -> None:
        self.is_ipv6 = is_ipv6
        self.level = socket.IPPROTO_IPV6 if is_ipv6 else socket.IPPROTO_IP
        self.kind = socket.IPV6_PKTINFO if is_ipv6 else _IP_PKTINFO
        self.option = socket.IPV6_RECVPKTINFO if is_ipv6 else _IP_PKTINFO
        # in6_pktinfo: where it was sent to, interface.
        self.information_bytes = 20 if is_ipv6 else _IN_PKTINFO.size
        self.source_at, self.source_bytes = (0, 20) if is_ipv6 else (4, 4)
        self.control_bytes = socket.CMSG_SPACE(self.information_bytes)
        self.sent_bytes = socket.CMSG_LEN(self.information_bytes)
        self.information_at = self.sent_bytes - self.information_bytes
        self.header = _HEADER.pack(self.sent_bytes, self.level, self.kind)

    def information(self, source: bytes | None) -> bytes:
        """To be sent with a datagram: from this address, by whatever way the routes say."""
        if source is None or source[0] == _GROUP:
            return bytes(self.information_bytes)
        if not self.is_ipv6:
            return _IN_PKTINFO.pack(0, source, b"")
        is_local = int.from_bytes(source[:2]) & _LINK_LOCAL_MASK == _LINK_LOCAL
        return source if is_local else source[:16] + bytes(4)

    def source(self, information: bytes) -> bytes:
        return information[self.source_at : self.source_at + self.source_bytes]


IPV4, IPV6 = Family(is_ipv6=False), Family(is_ipv6=True)


class Sources:
    """The addresses to send from, by raw address of the peer. An address that is None, or that no
    table has, is the kernel's choice.
    """

    def __init__(self, family: Family, *, peers_max: int, batch_max: int) -> None:
        self.family = family
        self.usual = b""  # control messages of a batch of which no peer needs an entry
        self.recent: dict[bytes, bytes | None] = {}
        self.former: dict[bytes, bytes | None] = {}
        self.is_used = False  # since some peer had an entry
        self._peers_max = peers_max
        self._batch_max = batch_max
        self._control_bytes = family.control_bytes
        self._only_address: bytes | None = None
        self._is_learning = False
        before = family.information_at + family.source_at
        behind = family.control_bytes - before - family.source_bytes
        slot = f"{before}x{family.source_bytes}s{behind}x"
        self._slots = [struct.Struct(slot * count) for count in range(batch_max + 1)]
        self.look_at_addresses()

    def look_at_addresses(self) -> None:
        """Now and then: addresses come and go."""
        only = None if self.family.is_ipv6 else _only_ipv4_address()
        if only != self._only_address:
            self._only_address, self.usual = only, b""
            if only is not None:
                self.recent, self.former = {}, {}
        self._is_learning = only is not None and not self.usual

    def received(self, peers: tuple[bytes, ...], controls: mmap) -> None:
        """From these peers, with these control messages one after another."""
        if self._is_learning and self._learn_usual(controls[: self._control_bytes * len(peers)]):
            return
        self.recent.update(zip(peers, self._slots[len(peers)].unpack_from(controls), strict=True))
        self.is_used = True
        if len(self.recent) > self._peers_max:
            self._forget_oldest()

    def received_at(self, peer: bytes, source: bytes) -> None:
        self.recent[peer] = source
        self.is_used = True
        if len(self.recent) > self._peers_max:
            self._forget_oldest()

    def of(self, peers: Sequence[bytes]) -> list[bytes | None]:
        found = list(map(self.recent.get, peers))
        if self.former and None in found:
            return [self._of(peer) for peer in peers]
        return found

    def forget(self, peer: bytes) -> bytes | None:
        """Its address may be gone. What it was, to be given back by `received_at`."""
        source = self._of(peer)
        self.recent[peer] = None
        return source

    def _of(self, peer: bytes) -> bytes | None:
        return self.recent[peer] if peer in self.recent else self.former.get(peer)

    def _learn_usual(self, controls: bytes) -> bool:
        """If all came over a network, to our only address; once in a while."""
        self._is_learning = False
        interface, ours, sent_to = _IN_PKTINFO.unpack_from(controls, self.family.information_at)
        if interface == _LOOPBACK or ours != self._only_address or sent_to != ours:
            return False
        self.usual = controls[: self._control_bytes] * self._batch_max
        return self.usual.startswith(controls)

    def _forget_oldest(self) -> None:
        self.former, self.recent = self.recent, {}


def ask_for_destinations(opened: socket.socket, host: str) -> None:
    """Before it is bound; only a listener on all addresses needs it."""
    family = IPV6 if opened.family == socket.AF_INET6 else IPV4
    if host in ("0.0.0.0", "::"):
        set_option(opened, family.level, family.option, 1, "where a datagram was sent to")


def sources_of(opened: socket.socket, *, peers_max: int, batch_max: int) -> Sources | None:
    """None if the kernel does not tell where a datagram was sent to, or was not asked."""
    family = IPV6 if opened.family == socket.AF_INET6 else IPV4
    try:
        told = opened.getsockopt(family.level, family.option)
    except OSError:
        return None
    return Sources(family, peers_max=peers_max, batch_max=batch_max) if told else None


_SIOCGIFCONF = 0x8912
_ADDRESSES_MAX = 16  # what is more than one is all the same
_IFREQ_BYTES = 16 + (24 if ctypes.sizeof(ctypes.c_void_p) == 8 else 16)
_IFREQ_ADDRESS_AT = 20  # behind the name, a family and a port


def _only_ipv4_address() -> bytes | None:
    """Of this machine, beside those of loopback. None if it has several or none."""
    requests = ctypes.create_string_buffer(_ADDRESSES_MAX * _IFREQ_BYTES)
    asked = struct.pack("@iP", len(requests), ctypes.addressof(requests))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            (filled,) = struct.unpack_from("@i", ioctl(any_socket, _SIOCGIFCONF, asked))
    except OSError:
        return None
    starts = range(_IFREQ_ADDRESS_AT, filled, _IFREQ_BYTES)
    found = {requests.raw[at : at + 4] for at in starts}
    others = [address for address in found if address[:1] != b"\x7f"]
    return others[0] if len(others) == 1 else None
