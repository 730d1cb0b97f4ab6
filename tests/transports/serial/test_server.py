"""A port server that is slow, silent or gone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gateway.config.serial_ports import PortServer
from gateway.config.settings import HostPort
from gateway.transports.serial import server as serial_server
from gateway.transports.serial.line import LineCallbacks, LineError, LineFailure, PortOptions
from gateway.transports.serial.server import ServerLine, open_server
from tests.transports.conftest import Run
from tests.transports.eventually import eventually

DO_COM_PORT = b"\xff\xfd\x2c"
CONFIRMED = (
    b"\xff\xfa\x2c\x65\x00\x01\xc2\x00\xff\xf0\xff\xfa\x2c\x66\x08\xff\xf0"
    b"\xff\xfa\x2c\x67\x01\xff\xf0\xff\xfa\x2c\x68\x01\xff\xf0"
)
SUSPEND, RESUME = b"\xff\xfa\x2c\x6c\xff\xf0", b"\xff\xfa\x2c\x6d\xff\xf0"


@dataclass
class Ears:
    octets: bytearray = field(default_factory=bytearray)
    rooms: int = 0
    lost: list[str] = field(default_factory=list)

    @property
    def callbacks(self) -> LineCallbacks:
        return LineCallbacks(self.octets.extend, self._has_room, self.lost.append)

    def _has_room(self) -> None:
        self.rooms += 1


@dataclass
class Server:
    """The other end of one connection, which reads only when it is told to."""

    listener: socket.socket
    connection: socket.socket | None = None

    @property
    def there(self) -> socket.socket:
        assert self.connection is not None
        return self.connection

    async def accept(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        self.connection, _ = await loop.sock_accept(self.listener)
        self.connection.setblocking(False)
        return self.connection

    def read(self) -> bytes:
        try:
            return self.there.recv(1 << 20)
        except BlockingIOError:
            return b""


@asynccontextmanager
async def served(
    scheme: str, callbacks: Ears, greeting: bytes
) -> AsyncIterator[tuple[Server, ServerLine]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        server = Server(listener)
        address = HostPort("127.0.0.1", listener.getsockname()[1])
        opening = asyncio.ensure_future(
            open_server(
                PortServer(scheme, address),  # type: ignore[arg-type]
                PortOptions("", 115_200),
                callbacks.callbacks,
            )
        )
        (await server.accept()).send(greeting)
        try:
            line = await opening
            yield server, line
            line.close()
            await line.closed()
        finally:
            server.there.close()


def test_what_comes_before_the_line_is_used_is_not_lost(run: Run) -> None:
    async def story() -> None:
        callbacks = Ears()
        async with served("rfc2217", callbacks, DO_COM_PORT + CONFIRMED + b"early") as (
            server,
            line,
        ):
            server.there.send(b" and late")
            assert callbacks.octets == b""
            line.begin()
            await eventually(lambda: callbacks.octets == b"early and late", "both")

    run(story())


def test_what_comes_before_the_settings_are_there_is_noise(run: Run) -> None:
    async def story() -> None:
        callbacks = Ears()
        greeting = b"noise" + DO_COM_PORT
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            address = HostPort("127.0.0.1", listener.getsockname()[1])
            opening = asyncio.ensure_future(
                open_server(PortServer("rfc2217", address), PortOptions(""), callbacks.callbacks)
            )
            server = Server(listener)
            (await server.accept()).send(greeting)
            await eventually(lambda: b"\x2c\x01" in server.read(), "settings")
            server.there.send(CONFIRMED)
            line = await opening
            line.begin()
            server.there.send(b"word")
            await eventually(lambda: callbacks.octets == b"word", "the word alone")
            line.close()
            await line.closed()
            server.there.close()

    run(story())


def test_a_server_that_takes_nothing_is_waited_for_with_little_on_its_way(run: Run) -> None:
    async def story() -> None:
        callbacks = Ears()
        async with served("socket", callbacks, b"") as (server, line):
            line.begin()
            sent = 0
            while taken := line.write(bytes(1000)):
                sent += taken
                await asyncio.sleep(0)
            assert (line.write(b"x"), callbacks.rooms) == (0, 0)
            # It waits with us, where its amount is bounded, and not in the transport.
            assert line._transport is not None
            assert line._transport.get_write_buffer_size() <= 1000
            found = 0
            while found < sent:
                found += len(server.read())
                await asyncio.sleep(0)
            await eventually(lambda: callbacks.rooms == 1, "room")
            assert line.write(b"x") == 1

    run(story())


def test_a_server_may_ask_for_a_pause(run: Run) -> None:
    async def story() -> None:
        callbacks = Ears()
        async with served("rfc2217", callbacks, DO_COM_PORT + CONFIRMED) as (server, line):
            line.begin()
            server.there.send(SUSPEND + b"1")
            await eventually(lambda: callbacks.octets == b"1", "1")
            assert line.write(b"x") == 0
            server.there.send(RESUME + b"2")
            await eventually(lambda: callbacks.octets == b"12", "2")
            assert (callbacks.rooms, line.write(b"x")) == (1, 1)

    run(story())


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (b"", "the server closed the connection"),
        (b"\xff\xfa\x2c\x65\x00\x00\x25\x80\xff\xf0", "it has set baud to 9600 instead of 115200"),
    ],
)
def test_a_line_is_lost_once_with_its_reason(run: Run, refusal: bytes, told: str) -> None:
    async def story() -> None:
        callbacks = Ears()
        async with served("rfc2217", callbacks, DO_COM_PORT + CONFIRMED) as (server, line):
            line.begin()
            server.there.send(refusal) if refusal else server.there.shutdown(socket.SHUT_WR)
            await eventually(lambda: callbacks.lost, "lost")
            assert line.write(b"x") == 0
        assert callbacks.lost == [told]

    run(story())


def test_nothing_is_left_of_a_connection_that_is_given_up(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serial_server, "SETTINGS_S_MAX", 0.05)

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            address = HostPort("127.0.0.1", listener.getsockname()[1])
            server = Server(listener)
            for is_cancelled in (False, True):
                callbacks = Ears()
                opening = asyncio.ensure_future(
                    open_server(
                        PortServer("rfc2217", address), PortOptions(""), callbacks.callbacks
                    )
                )
                there = await server.accept()
                if is_cancelled:
                    opening.cancel()
                with pytest.raises((LineError, asyncio.CancelledError)) as raised:
                    await opening
                if not is_cancelled:
                    assert getattr(raised.value, "failure", None) is LineFailure.REFUSED
                while True:  # what it had said, and then its end
                    try:
                        if not there.recv(1000):
                            break
                    except BlockingIOError:
                        await asyncio.sleep(0)
                    except ConnectionResetError:
                        break
                there.close()
                assert callbacks.lost == []

    run(story())
