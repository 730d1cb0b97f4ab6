"""A serial port on the network: its octets over TCP (socket://), or its settings too (rfc2217://).

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
from gateway.transports.serial.line import LineCallbacks, LineError, LineFailure, PortOptions

CONNECT_S_MAX = 10.0
SETTINGS_S_MAX = 5.0
SEND_BUFFER_BYTES = 4096  # the kernel doubles it
UNACKNOWLEDGED_S_MAX = 30.0

_USER_TIMEOUT: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)


class Stream(Protocol):
    """What is between the line's octets and those of the connection."""

    is_ready: bool
    is_suspended: bool
    refusal: str | None

    def begin(self) -> bytes: ...
    def wrap(self, octets: bytes) -> bytes: ...
    def receive(self, octets: bytes) -> tuple[bytes, bytes]: ...


class PlainStream:
    is_ready = True
    is_suspended = False
    refusal: str | None = None

    def begin(self) -> bytes:
        return b""

    def wrap(self, octets: bytes) -> bytes:
        return octets

    def receive(self, octets: bytes) -> tuple[bytes, bytes]:
        return octets, b""


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
            await line.settled
    except TimeoutError as error:
        silent = (
            f"{server} does not answer as RFC 2217 has it: set the server to it, or use socket://"
        )
        raise LineError(LineFailure.REFUSED, silent) from error
    except OSError as error:
        raise LineError(LineFailure.REFUSED, f"{server}: {error}") from error
    finally:
        if not line.is_settled:
            line.close()
    return line


def _set_options(connected: socket.socket) -> None:
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    if _USER_TIMEOUT is not None:
        milliseconds = int(UNACKNOWLEDGED_S_MAX * 1000)
        connected.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, milliseconds)


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
    """`settled`: done when the port has its settings, or failed with what is in the way."""

    def __init__(self, stream: Stream, callbacks: LineCallbacks) -> None:
        self.warning: str | None = None
        loop = asyncio.get_running_loop()
        self.settled: asyncio.Future[None] = loop.create_future()
        self._stream = stream
        self._callbacks = callbacks
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._is_refused = False  # a write, since when somebody waits for room
        self._is_closing = False
        self._is_begun = False
        self._early = b""  # what came before `begin`, in the same turn of the loop
        self._gone: asyncio.Future[None] = loop.create_future()

    @property
    def is_settled(self) -> bool:
        settled = self.settled
        return settled.done() and not settled.cancelled() and settled.exception() is None

    # From the link

    def begin(self) -> None:
        self._is_begun = True
        early, self._early = self._early, b""
        if early:
            self._callbacks.octets(early)

    def write(self, octets: bytes) -> int:
        if self._transport is None or self._is_closing:
            return 0
        if self._is_paused or self._stream.is_suspended:
            self._is_refused = True
            return 0
        self._transport.write(self._stream.wrap(octets))
        return len(octets)

    def close(self) -> None:
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()

    async def closed(self) -> None:
        if self._transport is not None:
            await asyncio.shield(self._gone)

    # From the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self._transport.write(self._stream.begin())
        self._settle()

    def data_received(self, octets: bytes) -> None:
        assert self._transport is not None
        data, answers = self._stream.receive(octets)
        if answers:
            self._transport.write(answers)
        self._settle()
        if self._is_begun and data and not self._is_closing:
            self._callbacks.octets(data)
        elif self.is_settled and not self._is_begun:
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
        self._gone.set_result(None)
        if not self.settled.done():
            self.settled.set_exception(ConnectionError(why))
        elif not self._is_closing:
            self._is_closing = True
            self._callbacks.lost(why)

    def _settle(self) -> None:
        if self._stream.refusal is not None:
            self._refuse(self._stream.refusal)
        elif self._stream.is_ready and not self.settled.done():
            self.settled.set_result(None)

    def _refuse(self, refusal: str) -> None:
        if not self.settled.done():
            self.settled.set_exception(ConnectionError(refusal))
        elif not self._is_closing:
            self.close()
            self._callbacks.lost(refusal)

    def _resume(self) -> None:
        if self._is_refused and not (self._is_paused or self._stream.is_suspended):
            self._is_refused = False
            self._callbacks.writable()
