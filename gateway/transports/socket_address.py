"""Raw socket addresses: the bytes the kernel writes, as far as they tell two peers apart.

IPv4: the first 8 bytes of `sockaddr_in` (family, port, address). IPv6: all 28 of `sockaddr_in6`
(family, port, flow, address, scope). They are dictionary keys on the hot path, which is why nobody
turns them into (host, port) unless a person is going to read it. Family and scope are in the
machine's byte order.
"""

from __future__ import annotations

import socket
import struct
from typing import TypeAlias

from gateway.transports.errors import LinkError

IPV4_NAME_BYTES = 16  # sockaddr_in; the last 8 are padding
IPV4_BYTES = 8
IPV6_BYTES = 28
# The one address of a serial line's own. No socket address begins with it: it would be the family
# of a local socket (AF_UNIX).
LINE_ADDRESS = b"\x01"

# What the socket module calls an address: (host, port) or (host, port, flow, scope).
SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]

_FAMILY = struct.Struct("=H")
_PORT = struct.Struct("!H")
_SCOPE = struct.Struct("=I")
_NO_FLOW = bytes(4)
_MAPPED = bytes(10) + b"\xff\xff"
IPV4_FAMILY = _FAMILY.pack(socket.AF_INET)
_IPV6 = _FAMILY.pack(socket.AF_INET6)


def address_text(address: bytes) -> str:
    """`192.0.2.7:1883` or `[2001:db8::1]:1883`, for people."""
    host, port = socket_address(address)[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_part(address: bytes) -> bytes:
    """The number of the host, and the scope that it is in; IPv4 in IPv6 is IPv4."""
    if len(address) == IPV4_BYTES:
        return address[4:8]
    number, scope = address[8:24], address[24:]
    return number[12:] if number.startswith(_MAPPED) else number + scope


def address_of(host: str, port: int) -> bytes:
    """The raw form of a numeric address; `fe80::1%eth0` and `fe80::1%2` name the interface."""
    if not 0 <= port <= 65535:
        raise LinkError(f"{port} is not a port: use 1 to 65535")
    number, _, scope = host.partition("%")
    try:
        if ":" in number:
            return raw_address((number, port, 0, _scope_of(scope)))
        return raw_address((host, port))
    except OSError as error:
        raise LinkError(
            f"{host!r} is not an IP address: write it in numbers, "
            "for example 0.0.0.0 (every IPv4 address), :: (every IPv6 address) or 192.0.2.7"
        ) from error


def raw_address(address: SocketAddress) -> bytes:
    """From the socket module's form, as recvfrom gives it."""
    host, port = address[0], address[1]
    if len(address) == 2:
        return IPV4_FAMILY + _PORT.pack(port) + socket.inet_pton(socket.AF_INET, host)
    number = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return _IPV6 + _PORT.pack(port) + _NO_FLOW + number + _SCOPE.pack(address[3])


def socket_address(address: bytes) -> SocketAddress:
    """To the socket module's form, as sendto and bind take it."""
    (port,) = _PORT.unpack_from(address, 2)
    if len(address) == IPV4_BYTES:
        return socket.inet_ntop(socket.AF_INET, address[4:8]), port
    (scope,) = _SCOPE.unpack_from(address, 24)
    host = socket.inet_ntop(socket.AF_INET6, address[8:24])
    return (f"{host}%{scope}" if scope else host), port, 0, scope


def _scope_of(name: str) -> int:
    if not name:
        return 0
    return int(name) if name.isdecimal() else socket.if_nametoindex(name)
