"""Opening the listening socket, and saying what to do when that is refused."""

from __future__ import annotations

import errno
import logging
import socket
import struct
import termios
from contextlib import suppress
from fcntl import ioctl

from gateway.host.causes import brief
from gateway.transports.errors import LinkError
from gateway.transports.options import set_option
from gateway.transports.socket_address import SocketAddress, address_of, socket_address
from gateway.transports.udp.broadcast_filter import refuse_broadcasts
from gateway.transports.udp.multicast_socket import SHARED_PORT, receive_no_other_groups
from gateway.transports.udp.sources import ask_for_destinations

log = logging.getLogger("tidegate.udp")

# Linux, not in Python's socket module. An old kernel answers with an error, which is looked for.
_SO_RCVBUFFORCE = 33
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("=9I")
_MEMINFO_DROPS = 8


def open_udp_socket(
    listen: tuple[str, int], receive_buffer_bytes: int, *, shares_port: bool = False
) -> socket.socket:
    """A non-blocking socket bound to this numeric address, or LinkError.

    `shares_port`: others may be bound to the same port of a multicast group; still nobody else who
    listens to all addresses, as we do.
    """
    host, port = listen
    address = socket_address(address_of(host, port))
    try:
        opened = socket.socket(_family(host), socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    except OSError as error:
        raise LinkError(f"cannot listen on {_shown(host, port)}: {brief(error)}") from error
    try:
        if opened.family == socket.AF_INET6:
            # So that "0.0.0.0" and "::" can both listen on one port.
            set_option(opened, socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1, "a port for IPv6 alone")
        ask_for_destinations(opened, host)
        _bind(opened, address)
        receive_no_other_groups(opened)
        refuse_broadcasts(opened)
        if shares_port:  # only now, so that a second gateway could not be bound beside us
            set_option(opened, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1, SHARED_PORT)
    except OSError as error:
        opened.close()
        raise LinkError(explain_bind(error, host, port)) from error
    _ask_for_buffer(opened, receive_buffer_bytes)
    return opened


def _bind(opened: socket.socket, address: SocketAddress) -> None:
    """Not beside another listener, but beside sockets that hear multicast groups on this port."""
    try:
        opened.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        from gateway.transports.port_owner import only_groups_have  # seldom needed

        if not only_groups_have(address[1]):
            raise
        set_option(opened, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1, SHARED_PORT)
        opened.bind(address)
        set_option(opened, socket.SOL_SOCKET, socket.SO_REUSEADDR, 0, SHARED_PORT)


def explain_bind(error: OSError, host: str, port: int) -> str:
    """Why we may not listen there, and what to do."""
    where = f"cannot listen on UDP {_shown(host, port)}: "
    match error.errno:
        case errno.EADDRINUSE:
            from gateway.transports.port_owner import port_owner  # seldom needed

            owner = port_owner(port) or "another process"
            return f"{where}{owner} has this port; stop it or choose another port"
        case errno.EACCES | errno.EPERM:
            return (
                f"{where}ports below 1024 need a privilege; choose a port above 1023, or give the "
                "service AmbientCapabilities=CAP_NET_BIND_SERVICE and "
                "CapabilityBoundingSet=CAP_NET_BIND_SERVICE below [Service] of "
                "`sudo systemctl edit tidegate`"
            )
        case errno.EADDRNOTAVAIL:
            every = "::" if ":" in host else "0.0.0.0"  # the operator's choice, not ours
            return (
                f"{where}this machine does not have that address; "
                f"use one that `ip address` shows, or {every} for all"
            )
        case _:
            return f"{where}{brief(error)}"


def lost_address(listening_on: tuple[str, int]) -> str | None:
    """Whether this machine has given up the address that a socket is bound to, of which the socket
    itself knows nothing. A sentence, or None. Tried by binding another one: no call that waits.
    """
    host, port = listening_on
    if host in ("0.0.0.0", "::"):
        return None
    try:
        with socket.socket(_family(host), socket.SOCK_DGRAM) as tried:
            tried.bind(socket_address(address_of(host, 0)))
    except (OSError, LinkError) as error:
        number = error.errno if isinstance(error, OSError) else errno.EADDRNOTAVAIL
        if number in (errno.EADDRNOTAVAIL, errno.ENODEV):
            return (
                f"this machine does not have the address {host} any more, on which UDP port {port} "
                "listens, so no sensor can reach it there: see `ip -brief address`; it goes on by "
                "itself when the address is back"
            )
    return None


def receive_buffer_drops(socket_: socket.socket) -> int:
    """Datagrams that found the receive buffer full; 0 if the kernel does not tell."""
    with suppress(OSError, struct.error):
        answer = socket_.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
        return int(_MEMINFO.unpack(answer)[_MEMINFO_DROPS])
    return 0


def has_unread(socket_: socket.socket) -> bool:
    """Whether a datagram waits, unless it is an empty one."""
    with suppress(OSError):
        return any(ioctl(socket_, termios.FIONREAD, bytes(4)))
    return False


def _ask_for_buffer(socket_: socket.socket, wanted_bytes: int) -> None:
    beyond = "a receive buffer beyond net.core.rmem_max"
    if not set_option(socket_, socket.SOL_SOCKET, _SO_RCVBUFFORCE, wanted_bytes, beyond):
        set_option(socket_, socket.SOL_SOCKET, socket.SO_RCVBUF, wanted_bytes, "a receive buffer")
    try:
        # Linux answers with twice what it was asked for; the other half is its own book-keeping.
        got_bytes = socket_.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
    except OSError:
        return  # what the buffer is cannot be known, nor what would help
    if got_bytes < wanted_bytes:
        log.info(
            "the kernel allows a receive buffer of %d bytes where %d were asked for, "
            "a burst may be lost; to allow it: sysctl -w net.core.rmem_max=%d",
            got_bytes,
            wanted_bytes,
            wanted_bytes,
        )


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
