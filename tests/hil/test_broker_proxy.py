"""The proxy to the broker freezes, refuses and cuts real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import mqtt5
import pytest

from hil.faults.broker_proxy import BrokerProxy
from hil.rig.mosquitto import Mosquitto
from tests.end_to_end.on_air import story

CONNECT = mqtt5.ConnectPacket("proxy", clean_start=True, keep_alive=0).write()
PING = b"\xc0\x00"
PONG = b"\xd0\x00"
PATIENCE_S = 5.0

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def broker_proxy() -> AsyncIterator[BrokerProxy]:
    with Mosquitto() as broker:
        made = BrokerProxy(broker.port, seed=1)
        await made.open()
        try:
            yield made
        finally:
            await made.close()


async def connected(made: BrokerProxy) -> tuple[int, Ends]:
    """The reason code of CONNACK."""
    reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
    writer.write(CONNECT)
    head = await asyncio.wait_for(reader.readexactly(2), PATIENCE_S)
    body = await reader.readexactly(head[1])
    return body[1], (reader, writer)


@story
async def test_a_full_broker_refuses_with_quota_exceeded_until_it_has_room() -> None:
    async with broker_proxy() as made:
        made.is_full = True
        code, (_, writer) = await connected(made)
        assert (code, made.fault_counts["refused"]) == (0x97, 1)
        writer.close()
        made.is_full = False
        code, (_, writer) = await connected(made)
        assert code == 0
        writer.close()


@story
async def test_a_frozen_broker_answers_when_it_is_thawed() -> None:
    async with broker_proxy() as made:
        _, (reader, writer) = await connected(made)
        made.freeze()
        writer.write(PING)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(2), 0.2)
        made.thaw()
        assert await asyncio.wait_for(reader.readexactly(2), PATIENCE_S) == PONG
        writer.close()


@story
async def test_a_cut_ends_connections_and_the_next_one_is_taken() -> None:
    async with broker_proxy() as made:
        _, (reader, writer) = await connected(made)
        await made.cut()
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        writer.close()
        code, (_, writer) = await connected(made)
        assert code == 0
        writer.close()
