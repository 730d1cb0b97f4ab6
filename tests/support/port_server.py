"""A serial server as one buys them: a port on the network, with pyserial's RFC 2217 or without."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

import serial  # type: ignore[import-untyped]
from serial.rfc2217 import PortManager  # type: ignore[import-untyped]

READ_OCTETS_MAX = 4096


class _Terminal(serial.Serial):  # type: ignore[misc]
    """A pseudo-terminal has none of these wires."""

    cts = dsr = ri = cd = False


class PortServer:
    """One client at a time has the port, which is opened for it."""

    def __init__(self, port: Path, scheme: Literal["socket", "rfc2217"]) -> None:
        self.scheme = scheme
        self.baud = 0  # as it is set
        self.opened = asyncio.Event()  # which empties the port, after the client has connected
        self._port = port
        self._server: asyncio.Server | None = None
        self._number = 0
        self._clients: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self._number}"

    async def start(self) -> None:
        """On the port that it had before, if it had one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._number)
        self._number = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.opened.clear()
        for client in self._clients:
            client.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        port = _Terminal(str(self._port), timeout=0)
        manager = PortManager(port, writer) if self.scheme == "rfc2217" else None
        loop = asyncio.get_running_loop()

        def readable() -> None:
            octets = os.read(port.fileno(), READ_OCTETS_MAX)
            writer.write(octets if manager is None else b"".join(manager.escape(octets)))

        loop.add_reader(port.fileno(), readable)
        self.opened.set()
        try:
            with suppress(OSError):
                while octets := await reader.read(READ_OCTETS_MAX):
                    plain = octets if manager is None else b"".join(manager.filter(octets))
                    self.baud = port.baudrate
                    os.write(port.fileno(), plain)
        finally:
            loop.remove_reader(port.fileno())
            port.close()
            self._clients.discard(writer)
            writer.close()


@asynccontextmanager
async def port_server(
    port: Path, scheme: Literal["socket", "rfc2217"]
) -> AsyncIterator[PortServer]:
    server = PortServer(port, scheme)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
