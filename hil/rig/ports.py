"""Ports that stay free until their program is there, and while it is down for a moment."""

from __future__ import annotations

import errno
import random
import socket
from collections import deque

# Below those that Linux gives to sockets that ask for any (32768 and up): neither a sensor nor a
# connection that is made meanwhile takes the port of a program that is being started.
PORTS = range(20_000, 32_000)

# A port that is free is still free for others who look, until its program listens there; that takes
# seconds on a busy machine. So who takes one claims it, by a name in the network's own name space,
# which goes with this process. The oldest claim is given up for one too many.
CLAIMS_MAX = 64
_claims: deque[socket.socket] = deque()


class HeldPort:
    """A TCP port that no other program gets until `close`, and that refuses connections meanwhile.

    It is bound and never listens. Who sets SO_REUSEADDR, as asyncio and mosquitto do, can listen
    there, go, and come back; Linux gives it to no socket that asks for any port.
    """

    def __init__(self) -> None:
        self._keeper = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._keeper.bind(("127.0.0.1", 0))
        self.number: int = self._keeper.getsockname()[1]

    def close(self) -> None:
        self._keeper.close()


def free_udp_port() -> int:
    return free_port(socket.SOCK_DGRAM)


def free_port(kind: socket.SocketKind) -> int:
    for port in random.sample(PORTS, 100):
        claim = _claimed(f"\0tidegate-{kind.name}-{port}")
        if claim is None:
            continue
        if not _is_free(kind, port):
            claim.close()  # a kept one would give up an older one, of a port that was given
            continue
        _claims.append(claim)
        if len(_claims) > CLAIMS_MAX:
            _claims.popleft().close()
        return port
    raise OSError(errno.EADDRINUSE, f"100 ports from {PORTS[0]} to {PORTS[-1]} are all in use")


def _claimed(name: str) -> socket.socket | None:
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(name)
    except OSError:
        claim.close()
        return None
    return claim


def _is_free(kind: socket.SocketKind, port: int) -> bool:
    with socket.socket(socket.AF_INET, kind) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True
