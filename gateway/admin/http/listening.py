"""Opening the TCP port of the admin server, and saying what to do when that is refused."""

from __future__ import annotations

import errno
import socket

from gateway.host.causes import brief


class AdminError(OSError):
    """The world refused. The text is one sentence for the operator that says what to do."""


def open_listener(host: str, port: int) -> socket.socket:
    """A listening socket at this numeric address, or AdminError."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise AdminError(
            f"admin.listen {where} is no address: write it in numbers, "
            "for example 127.0.0.1:8080, or 0.0.0.0:8080 for every IPv4 address"
        ) from error
    listener = socket.socket(family, kind, number)
    try:
        # After a restart, connections of the daemon before may linger.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise AdminError(_explained(error, where, port)) from error
    listener.setblocking(False)
    return listener


def _explained(error: OSError, where: str, port: int) -> str:
    start = f"cannot serve the admin page on TCP {where}: "
    match error.errno:
        case errno.EADDRINUSE:
            from gateway.transports.port_owner import port_owner  # seldom needed

            owner = port_owner(port, "tcp") or "another process"
            return (
                f"{start}{owner} has this port; stop it, set admin.listen to another port, "
                'or admin.listen = "" for none'
            )
        case errno.EACCES | errno.EPERM:
            return f"{start}ports below 1024 need a privilege; set admin.listen to one above 1023"
        case errno.EADDRNOTAVAIL:
            return (
                f"{start}this machine does not have that address; set admin.listen to one that "
                "`ip address` shows"
            )
        case _:
            return f"{start}{brief(error)}"
