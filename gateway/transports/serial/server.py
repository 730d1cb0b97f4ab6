"""A serial port on the network: its bytes over TCP (socket://), or its settings too (rfc2217://).

- asyncio's own transport carries it, with RFC 2217 too (framing/rfc2217.py): no thread.
- What the server does not take waits with us and not in the kernel, so that it is bounded by what a
  line takes in a few seconds.
- A server that vanished without a word is noticed in half a minute when something is to be sent,
  and in two minutes when nothing is.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Protocol, cast

from gateway.config.serial_ports import PortServer
from gateway.host import limits
from gateway.transports.broker.failures import explain_name
from gateway.transports.broker.socket import connected_socket
from gateway.transports.framing.rfc2217 import ComPort, PortSettings
from gateway.transports.options import set_option
from gateway.transports.serial.line import LineCallbacks, LineError, LineFailure, PortOptions

CONNECT_S_MAX = 10.0
SETTINGS_S_MAX = 5.0
SEND_BUFFER_BYTES = 4096  # the kernel doubles it
UNACKNOWLEDGED_S_MAX = 30.0

_USER_TIMEOUT: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)


class Stream(Protocol):
    """What is between the line's bytes and those of the connection."""

    is_ready: bool
    is_suspended: bool
    refusal: str | None

    def begin(self) -> bytes: ...
    def wrap(self, chunk: bytes) -> bytes: ...
    def receive(self, chunk: bytes) -> tuple[bytes, bytes]: ...


class PlainStream:
    is_ready = True
    is_suspended = False
    refusal: str | None = None

    def begin(self) -> bytes:
        return b""

    def wrap(self, chunk: bytes) -> bytes:
        return chunk

    def receive(self, chunk: bytes) -> tuple[bytes, bytes]:
        return chunk, b""


async def open_server(
    server: PortServer, options: PortOptions, callbacks: LineCallbacks
) -> ServerLine:
    """Raises LineError."""
    loop = asyncio.get_running_loop()
    stream: Stream = PlainStream()
    if server.scheme == "rfc2217":
        settings = PortSettings(
            baud=options.baud,
            parity=options.parity,
            stop_bits=options.stop_bits,
            rtscts=options.rtscts,
        )
        stream = cast("Stream", ComPort(settings))
    line = ServerLine(stream, callbacks)
    try:
        connected = await connected_socket(loop, *server.address, CONNECT_S_MAX)
        _set_options(connected)
        await loop.create_connection(lambda: line, sock=connected)
    except OSError as error:
        raise LineError(LineFailure.UNREACHABLE, _why_unreachable(server, error)) from error
    try:
        async with asyncio.timeout(SETTINGS_S_MAX):
            await line.configured
    except TimeoutError as error:
        text = (
            f"{server} does not answer as RFC 2217 has it: set the server to it, or use socket://"
        )
        raise LineError(LineFailure.REFUSED, text) from error
    except OSError as error:
        raise LineError(LineFailure.REFUSED, f"{server}: {error}") from error
    finally:
        if not line.is_configured:
            line.close()
    return line


def _set_options(connected: socket.socket) -> None:
    set_option(
        connected, socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES, "a small send buffer"
    )
    if _USER_TIMEOUT is not None:
        milliseconds = int(UNACKNOWLEDGED_S_MAX * 1000)
        set_option(
            connected, socket.IPPROTO_TCP, _USER_TIMEOUT, milliseconds, "a server that is gone"
        )


def _why_unreachable(server: PortServer, error: OSError) -> str:
    host, port = server.address
    if isinstance(error, TimeoutError):
        return f"{server} does not answer: is {host} switched on, and the way to it open?"
    if isinstance(error, socket.gaierror):
        return explain_name(error, host, "the line's port")
    limit = limits.named(error)
    if limit is not None:
        return f"{server} cannot be reached now: {limit}"
    if error.errno == errno.ECONNREFUSED:
        return f"nobody listens at {host} port {port}: is the port server set to that port?"
    return f"{server} cannot be reached: {error.strerror or error}"


class ServerLine(asyncio.Protocol):
    """`configured`: done when the port has its settings, or failed with the reason."""

    def __init__(self, stream: Stream, callbacks: LineCallbacks) -> None:
        self.warning: str | None = None
        loop = asyncio.get_running_loop()
        self.configured: asyncio.Future[None] = loop.create_future()
        self._stream = stream
        self._callbacks = callbacks
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._is_refused = False  # a write, since when the outflow waits for room
        self._is_closing = False
        self._is_begun = False
        self._early = b""  # what came before `begin`, in the same turn of the loop
        self._closed: asyncio.Future[None] = loop.create_future()

    @property
    def is_configured(self) -> bool:
        configured = self.configured
        return configured.done() and not configured.cancelled() and configured.exception() is None

    # From the link

    def begin(self) -> None:
        self._is_begun = True
        early, self._early = self._early, b""
        if early:
            self._callbacks.received(early)

    def write(self, chunk: bytes) -> int:
        if self._transport is None or self._is_closing:
            return 0
        if self._is_paused or self._stream.is_suspended:
            self._is_refused = True
            return 0
        self._transport.write(self._stream.wrap(chunk))
        return len(chunk)

    def close(self) -> None:
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()

    async def closed(self) -> None:
        if self._transport is not None:
            await asyncio.shield(self._closed)

    # From the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self._transport.write(self._stream.begin())
        self._check_settings()

    def data_received(self, chunk: bytes) -> None:
        assert self._transport is not None
        data, answers = self._stream.receive(chunk)
        if answers:
            self._transport.write(answers)
        self._check_settings()
        if self._is_begun and data and not self._is_closing:
            self._callbacks.received(data)
        elif self.is_configured and not self._is_begun:
            self._early += data
        self._resume()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._resume()

    def connection_lost(self, error: Exception | None) -> None:
        why = "the server closed the connection"
        if isinstance(error, OSError):
            why = f"the connection to the server broke: {error.strerror or error}"
        self._closed.set_result(None)
        if not self.configured.done():
            self.configured.set_exception(ConnectionError(why))
        elif not self._is_closing:
            self._is_closing = True
            self._callbacks.lost(why)

    def _check_settings(self) -> None:
        if self._stream.refusal is not None:
            self._fail(self._stream.refusal)
        elif self._stream.is_ready and not self.configured.done():
            self.configured.set_result(None)

    def _fail(self, refusal: str) -> None:
        if not self.configured.done():
            self.configured.set_exception(ConnectionError(refusal))
        elif not self._is_closing:
            self.close()
            self._callbacks.lost(refusal)

    def _resume(self) -> None:
        if self._is_refused and not (self._is_paused or self._stream.is_suspended):
            self._is_refused = False
            self._callbacks.writable()
