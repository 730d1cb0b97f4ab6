"""HTTP connections, bounded in number, size and time; one request each.

- A connection is over after a stated time, answered or not. What is answered in pieces (live
  updates, an export) may go on, as long as the peer takes each piece in time.
- When too many are open the oldest is closed for the newest: the one that holds connections open
  and says nothing cannot keep a health check out. Streams are counted apart, and refused beyond
  STREAMS_MAX by connection.
- Of a request its head is read, and the body of a POST to /api/, each up to a stated size. What is
  longer is answered, and a stated part of it thrown away: the kernel would reset a connection that
  is closed with something unread, and the peer hear nothing.
- Nothing that a peer sends, or leaves out, raises or is logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any

from gateway.admin.http.listening import open_listener
from gateway.admin.http.local_socket import LocalPeer, LocalSocket, peer_of
from gateway.host.slow_callbacks import Callback, SlowCallbacks, timed

HEAD_BYTES_MAX = 16 * 1024  # browsers send the cookies of every service on this host
# A message to a sensor of the largest payload, in hexadecimal, and its topic.
BODY_BYTES_MAX = 160 * 1024
THROWN_AWAY_BYTES_MAX = 1 << 20
CONNECTION_S_MAX = 5.0  # a slow radio link; a scrape gives up after ten
PIECE_S_MAX = 20.0
ANSWER_S_MAX = 65.0  # longer than a look at the journal may take, see buffer_reader.py
BACKLOG = 64
# Twice what one turn of the loop accepts: a request in a burst is read before it is the oldest.
CONNECTIONS_MAX = 2 * BACKLOG

HEAD_END = b"\r\n\r\n"
# As before Python 3.13, which would remove the file at the end in the loop's thread, on a disk that
# may hang.
_FILE_STAYS: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*\r\n", re.IGNORECASE)

__all__ = ["Connections", "LocalPeer", "LocalSocket", "Pieces", "Received", "Reply"]

Pieces = AsyncGenerator[bytes, None]


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came. No `head`: it is too long. `host`: the peer's address. `is_whole`:
    nothing was left unread. `local`: the process that sent it, on the Unix socket.
    """

    head: bytes | None
    body: bytes
    host: str
    is_whole: bool = True
    local: LocalPeer | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    octets: bytes
    pieces: Pieces | None = None  # what follows


class Connections:
    def __init__(
        self,
        *,
        answer: Callable[[Received], Awaitable[Reply]],
        connection_s_max: float,
        backlog: int = BACKLOG,
        slow: SlowCallbacks | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        """`backlog`: less than usual where few descriptors are left for the page."""
        self._tls = tls
        self._local: LocalSocket | None = None
        self._local_group: int | None = None
        self._local_server: asyncio.Server | None = None
        self._answer = answer
        self._slow = slow or SlowCallbacks()
        self._backlog = backlog
        self._connection_s_max = connection_s_max
        self._server: asyncio.Server | None = None  # until `start`
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}  # oldest first
        self._streams: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Returns where it listens; raises AdminError with a sentence for the operator."""
        listener = open_listener(host, port)
        host, port = listener.getsockname()[:2]
        self._server = await asyncio.start_server(
            self._serve,
            sock=listener,
            limit=HEAD_BYTES_MAX,
            backlog=self._backlog,
            ssl=self._tls,
            ssl_handshake_timeout=None if self._tls is None else self._connection_s_max,
        )
        return host, port

    async def start_local(self, local: LocalSocket) -> None:
        """Raises AdminError with a sentence for the operator."""
        listener = local.listening()
        self._local, self._local_group = local, local.group_id
        self._local_server = await asyncio.start_unix_server(
            self._serve, sock=listener, limit=HEAD_BYTES_MAX, backlog=self._backlog, **_FILE_STAYS
        )

    async def stop(self) -> None:
        """Also without `start`, which may have failed."""
        if self._server is None:
            return
        self._server.close()
        if self._local_server is not None:
            self._local_server.close()  # the next start takes the place of its file
        ending = [*self._open, *self._streams]
        while self._open:
            self._close_oldest()
        for task in list(self._streams):
            task.cancel()
        if ending:
            await asyncio.wait(ending)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await timed(self._converse(reader, writer), self._slow, Callback.PAGE)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= 2 * self._backlog:
            self._close_oldest()
        self._open[task] = writer
        try:
            async with asyncio.timeout(self._connection_s_max):
                received = await _received(reader, writer, self._local_peer(writer))
            async with asyncio.timeout(ANSWER_S_MAX):
                reply = await self._answer(received)
            async with asyncio.timeout(self._connection_s_max):
                writer.write(reply.octets)
                if not received.is_whole:
                    await _throw_away(reader, writer)
                if reply.pieces is None:
                    writer.close()
                    await writer.wait_closed()
            if reply.pieces is not None:
                del self._open[task]
                self._streams[task] = writer
                await _write_pieces(reader, writer, self._timed(reply.pieces))
        except (OSError, EOFError, asyncio.CancelledError):  # TimeoutError is an OSError
            pass
        finally:
            self._open.pop(task, None)
            self._streams.pop(task, None)
            writer.transport.abort()

    def _local_peer(self, writer: asyncio.StreamWriter) -> LocalPeer | None:
        """Raises OSError."""
        connection = writer.get_extra_info("socket")
        if self._local is None or connection.family != socket.AF_UNIX:
            return None
        return peer_of(connection, self._local_group, self._local.group_role)

    async def _timed(self, pieces: Pieces) -> Pieces:
        """Each is made in a task of its own."""
        async with aclosing(pieces):
            while (piece := await timed(_next_of(pieces), self._slow, Callback.PAGE)) is not None:
                yield piece

    def _close_oldest(self) -> None:
        self._open.pop(next(iter(self._open))).transport.abort()


async def _received(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, local: LocalPeer | None
) -> Received:
    host = "unix" if local is not None else str((writer.get_extra_info("peername") or ("",))[0])
    try:
        head = await reader.readuntil(HEAD_END)
    except asyncio.LimitOverrunError:
        return Received(None, b"", host, is_whole=False, local=local)
    found = _LENGTH.search(head) if head.startswith(b"POST /api/") else None
    length = int(found[1]) if found else 0
    body = await reader.readexactly(length) if 0 < length <= BODY_BYTES_MAX else b""
    return Received(head, body, host, is_whole=length <= BODY_BYTES_MAX, local=local)


async def _throw_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the peer has its answer and hangs up, or has sent too much."""
    if writer.can_write_eof():  # TLS cannot
        writer.write_eof()
    left = THROWN_AWAY_BYTES_MAX
    while left > 0 and (data := await reader.read(HEAD_BYTES_MAX)):
        left -= len(data)


async def _write_pieces(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pieces: Pieces
) -> None:
    """Until there are no more, or the peer hangs up, which makes room for the next one at once."""
    gone = asyncio.create_task(_hung_up(reader))
    try:
        async with aclosing(pieces):
            while (piece := await _unless_gone(pieces, gone)) is not None:
                writer.write(piece)
                async with asyncio.timeout(PIECE_S_MAX):
                    await writer.drain()
    finally:
        gone.cancel()
    writer.close()
    async with asyncio.timeout(PIECE_S_MAX):
        await writer.wait_closed()


async def _unless_gone(pieces: Pieces, gone: asyncio.Task[None]) -> bytes | None:
    """The next piece; None at the end, or when nobody wants it."""
    piece = asyncio.create_task(_next_of(pieces))
    try:
        await asyncio.wait((piece, gone), return_when=asyncio.FIRST_COMPLETED)
        return piece.result() if piece.done() else None
    finally:
        if not piece.done():
            piece.cancel()
            await asyncio.wait((piece,))


async def _next_of(pieces: Pieces) -> bytes | None:
    return await anext(pieces, None)


async def _hung_up(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(HEAD_BYTES_MAX):  # it has nothing more to say
            pass
