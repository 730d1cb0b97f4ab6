"""Sensors on ports that are somewhere on the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto, free_tcp_port
from tests.end_to_end.on_air import fresh, serving, story
from tests.end_to_end.serial.on_line import NO_UDP, lines, node_on, table, wait_until_open
from tests.end_to_end.serial.test_conversations import converse
from tests.support.application import application, heard
from tests.support.port_server import PortServer, port_server

SCHEMES: tuple[Literal["socket", "rfc2217"], ...] = ("socket", "rfc2217")
BAUD = "baud = 38400\nadvertise = false"


async def until_open(gateway: GatewayProcess, server: PortServer, times: int = 1) -> None:
    """Beside the server, which runs on the same loop as the test."""
    await asyncio.to_thread(wait_until_open, gateway, server.url, times)
    await server.opened.wait()


@pytest.mark.parametrize("scheme", SCHEMES)
@story
async def test_a_sensor_behind_a_port_server_has_all_that_others_have(
    broker: Mosquitto, tmp_path: Path, scheme: Literal["socket", "rfc2217"]
) -> None:
    async with lines(tmp_path, "hdlc") as (line,), port_server(line.name, scheme) as server:
        with serving(tmp_path, broker, NO_UDP + table(server.url, more=BAUD)) as gateway:
            await until_open(gateway, server)
            await converse(broker, node_on(line))
        assert server.baud == (38_400 if scheme == "rfc2217" else 9600)


@pytest.mark.parametrize("scheme", SCHEMES)
@story
async def test_a_port_server_that_was_away_is_found_again_and_the_session_goes_on(
    broker: Mosquitto, tmp_path: Path, scheme: Literal["socket", "rfc2217"]
) -> None:
    up = fresh("up")
    async with lines(tmp_path, "hdlc") as (line,), port_server(line.name, scheme) as server:
        with serving(tmp_path, broker, table(server.url)) as gateway:
            await until_open(gateway, server)
            n = node_on(line)
            await n.connect()
            topic_id = await n.register(up)
            async with application(broker, up) as app:
                for times in (2, 3):
                    await server.stop()
                    await asyncio.to_thread(
                        gateway.wait_for_log, r"(connection to the server broke|closed)"
                    )
                    await server.start()
                    await until_open(gateway, server, times)
                    await n.publish(topic_id, b"%d" % times, qos=2)
                    assert (await heard(app)).payload == b"%d" % times


@asynccontextmanager
async def answering(greeting: bytes) -> AsyncIterator[int]:
    """A server that says one thing to everybody; its port."""
    greeted: list[asyncio.StreamWriter] = []  # one that is no longer referred to is closed

    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeted.append(writer)
        writer.write(greeting)
        await writer.drain()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in greeted:  # since Python 3.12 the end of a server waits for theirs
            writer.close()


DONT_COM_PORT = b"\xff\xfe\x2c"
DO_COM_PORT = b"\xff\xfd\x2c"
AT_300_BAUD = b"\xff\xfa\x2c\x65\x00\x00\x01\x2c\xff\xf0"


@pytest.mark.parametrize(
    ("greeting", "told"),
    [
        (b"login: ", "does not answer as RFC 2217 has it"),
        (DONT_COM_PORT, "it does not speak RFC 2217: use socket://"),
        (DO_COM_PORT + AT_300_BAUD, "it has set baud to 300 instead of 115200"),
    ],
)
@story
async def test_a_server_without_rfc_2217_is_told_from_one_that_has_it(
    broker: Mosquitto, tmp_path: Path, greeting: bytes, told: str
) -> None:
    async with answering(greeting) as port:
        with serving(tmp_path, broker, table(f"rfc2217://127.0.0.1:{port}")) as gateway:
            await asyncio.to_thread(gateway.wait_for_log, told)
            assert "listening for sensors on serial" not in gateway.log


@story
async def test_a_server_that_is_not_there_is_named_with_its_port(
    broker: Mosquitto, tmp_path: Path
) -> None:
    port = free_tcp_port()
    tables = table(f"socket://127.0.0.1:{port}") + table("socket://nowhere.invalid:4001")
    with serving(tmp_path, broker, tables) as gateway:
        gateway.wait_for_log(f"nobody listens at 127.0.0.1 port {port}")
        gateway.wait_for_log("the name 'nowhere.invalid' has no address")
