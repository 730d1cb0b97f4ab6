"""A radio bridge that knows nothing of our codec: one UDP socket, and nodes that speak through it.

Rows as in the specification: length (of itself to the end of the node id), FE, control, node id,
and then the node's own message (1.2, 5.5).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aioudp

from hil.rig.scripted_client import Wire
from tests.end_to_end.on_air import Node, fresh


class Bridge:
    def __init__(self, wire: Wire, port: int) -> None:
        self.port = port  # of its own socket
        self._wire = wire
        self._heard: defaultdict[bytes, deque[bytes]] = defaultdict(deque)

    def node(self, node_id: bytes, client_id: str | None = None) -> Node:
        return Node(_Radio(self, node_id), fresh() if client_id is None else client_id)

    async def send(self, node_id: bytes, message: bytes, control: int = 0) -> None:
        await self._wire.send(bytes((3 + len(node_id), 0xFE, control)) + node_id + message)

    async def recv(self, node_id: bytes) -> bytes:
        """The next message for this node; those for others wait for them."""
        while not self._heard[node_id]:
            datagram = await self._wire.recv()
            head = datagram[0]
            assert datagram[1:3] == b"\xfe\x00", datagram.hex(" ")
            self._heard[datagram[3:head]].append(datagram[head:])
        return self._heard[node_id].popleft()


class _Radio:
    def __init__(self, bridge: Bridge, node_id: bytes) -> None:
        self._bridge = bridge
        self._node_id = node_id

    async def send(self, data: bytes) -> None:
        await self._bridge.send(self._node_id, data)

    async def recv(self) -> bytes:
        return await self._bridge.recv(self._node_id)


@asynccontextmanager
async def bridge(port: int, from_host: str = "127.0.0.1") -> AsyncIterator[Bridge]:
    async with aioudp.connect("127.0.0.1", port, local_addr=(from_host, 0)) as connection:
        yield Bridge(connection, connection.local_address[1])
