"""Both ends around a BrokerLink: the session above it, and a plain server on loopback."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from gateway.transports.broker import link as broker
from gateway.transports.broker.link import BrokerLink
from gateway.transports.tls import client_context
from tests.transports.certificates import Certificates


@dataclass
class Upper:
    """The session above the link: what it was told, in order."""

    told: list[str] = field(default_factory=list)
    opens: list[str] = field(default_factory=list)
    received: bytearray = field(default_factory=bytearray)
    on_bytes: Callable[[], None] = lambda: None
    on_room: Callable[[], None] = lambda: None

    def opened(self) -> None:
        self.told.append("open")
        self.opens.append("open")

    def bytes(self, data: bytes) -> None:
        self.received += data
        self.on_bytes()

    def closed(self, reason: str, _by_broker: bool) -> None:
        self.told.append(reason)


class Peer(asyncio.Protocol):
    """The broker's side of one connection."""

    def __init__(self, serving: Server) -> None:
        self._serving = serving
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._serving.connections.append(self.transport)

    def data_received(self, data: bytes) -> None:
        self._serving.received += data


@dataclass
class Server:
    """One port, and all who came."""

    port: int = 0
    received: bytearray = field(default_factory=bytearray)
    connections: list[asyncio.Transport] = field(default_factory=list)


@asynccontextmanager
async def server(certificates: Certificates | None = None) -> AsyncIterator[Server]:
    serving = Server()
    context = certificates.server_context(certificates.server) if certificates else None
    listener = await asyncio.get_running_loop().create_server(
        lambda: Peer(serving), "127.0.0.1", 0, ssl=context
    )
    serving.port = listener.sockets[0].getsockname()[1]
    try:
        yield serving
    finally:
        listener.close()
        for connection in serving.connections:
            connection.abort()


def counts(things: Sized, number: int) -> bool:
    return len(things) == number


def link_to(
    port: int,
    upper: Upper,
    *,
    certificates: Certificates | None = None,
    delays_s: tuple[float, float] = (0.01, 0.02),
    unsent_bytes_max: int = broker.UNSENT_BYTES_MAX,
    lasts_s: float = broker.LASTS_S,
) -> BrokerLink:
    return BrokerLink(
        "localhost",
        port,
        tls=client_context(certificates.authority, None, None) if certificates else None,
        on_open=upper.opened,
        on_bytes=upper.bytes,
        on_closed=upper.closed,
        on_room=upper.on_room,
        connect_timeout_s=20,
        reconnect_delay_s_min=delays_s[0],
        reconnect_delay_s_max=delays_s[1],
        dice=random.Random(1),
        unsent_bytes_max=unsent_bytes_max,
        lasts_s=lasts_s,
    )
