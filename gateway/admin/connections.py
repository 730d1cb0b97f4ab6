"""HTTP connections, bounded in number, size and time; one request each.

- A connection is over after a stated time, answered or not.
- When too many are open the oldest is closed for the newest: whoever holds connections open and
  says nothing cannot keep a health check out.
- Of a request only its head is read, up to a stated size. Bodies are of no use here.
- Nothing that a peer sends, or leaves out, raises or is logged.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

HEAD_BYTES_MAX = 16 * 1024  # browsers send the cookies of every service on this host
CONNECTION_S_MAX = 5.0  # a slow radio link; a scrape gives up after ten
BACKLOG = 64
# Twice what one turn of the loop accepts: a request in a burst is read before it is the oldest.
CONNECTIONS_MAX = 2 * BACKLOG

HEAD_END = b"\r\n\r\n"


class Connections:
    """`answer` gets the head of a request, or None if it is too long, and gives the response."""

    def __init__(
        self, answer: Callable[[bytes | None], Awaitable[bytes]], connection_s_max: float
    ) -> None:
        self._answer = answer
        self._connection_s_max = connection_s_max
        self._server: asyncio.Server | None = None  # until `start`
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}  # oldest first

    async def start(self, listener: socket.socket) -> None:
        self._server = await asyncio.start_server(
            self._serve, sock=listener, limit=HEAD_BYTES_MAX, backlog=BACKLOG
        )

    async def stop(self) -> None:
        """Also without `start`, which may have failed."""
        if self._server is None:
            return
        self._server.close()
        ending = list(self._open)
        while self._open:
            self._close_oldest()
        if ending:
            await asyncio.wait(ending)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= CONNECTIONS_MAX:
            self._close_oldest()
        self._open[task] = writer
        try:
            async with asyncio.timeout(self._connection_s_max):
                writer.write(await self._answer(await _head(reader)))
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError):  # TimeoutError is an OSError
            pass
        finally:
            self._open.pop(task, None)
            writer.transport.abort()

    def _close_oldest(self) -> None:
        self._open.pop(next(iter(self._open))).transport.abort()


async def _head(reader: asyncio.StreamReader) -> bytes | None:
    try:
        return await reader.readuntil(HEAD_END)
    except asyncio.LimitOverrunError:
        return None
