"""The client for asyncio, on CPython, over UDP at the real gateway.

The board has no asyncio of its own; what this one asks of asyncio is `sleep` and `Lock`.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from firmware.mqttsn.aio import AioClient
from firmware.mqttsn.udp import Udp
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.firmware.program import NUMBERS
from tests.firmware.session_bench import broker, forget, gateway, next_heard
from tests.support.application import application

__all__ = ["broker", "gateway"]

Heard = list[tuple[bytes | int, bytes, bool]]


@asynccontextmanager
async def node(port: int) -> AsyncIterator[tuple[AioClient, Heard]]:
    client = AioClient(Udp(("127.0.0.1", port)), b"node-%d" % next(NUMBERS))
    client.engine.retry_ms = 300
    heard: Heard = []
    client.on_message = lambda topic, payload, flag: heard.append((topic, bytes(payload), flag))
    serving = asyncio.create_task(client.serve())
    try:
        yield client, heard
    finally:
        serving.cancel()
        client.transport.close()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(200):
        while not is_so():  # noqa: ASYNC110, the client has no event to wait for
            await asyncio.sleep(0.01)


def run(inner: Awaitable[None]) -> None:
    async def outer() -> None:
        await inner

    asyncio.run(outer())


def test_readings_of_several_tasks_arrive(gateway: GatewayProcess, broker: Mosquitto) -> None:
    async def inner() -> None:
        async with application(broker, "aio/#") as app, node(gateway.port) as (client, _):
            client.engine.retry_ms = 5_000  # a CONNECT that is repeated may cost one with QoS 0
            await asyncio.gather(
                *(client.publish(b"aio/%d" % number, b"x", number % 3) for number in range(9))
            )
            arrived = await next_heard(app, 9)
        wanted = [(f"aio/{number}", b"x", number % 3) for number in range(9)]
        assert sorted(arrived) == sorted(wanted)

    run(inner())


def test_messages_come_while_nobody_calls(gateway: GatewayProcess, broker: Mosquitto) -> None:
    async def inner() -> None:
        async with application(broker) as app, node(gateway.port) as (client, heard):
            await client.subscribe(b"cmd/+", 2)
            for qos in (0, 1, 2):
                await app.publish("cmd/x", f"q{qos}", qos=qos)
            await until(lambda: len(heard) == 3)
            assert heard == [(b"cmd/x", b"q%d" % qos, False) for qos in (0, 1, 2)]

    run(inner())


def test_who_is_forgotten_is_back_with_its_subscriptions(
    gateway: GatewayProcess, broker: Mosquitto
) -> None:
    async def inner() -> None:
        async with application(broker, "aio") as app, node(gateway.port) as (client, heard):
            await client.subscribe(b"cmd", 1)
            await asyncio.to_thread(forget, gateway)
            await client.publish(b"aio", b"x", 1)
            assert await next_heard(app, 1) == [("aio", b"x", 1)]
            await app.publish("cmd", "on", qos=1)
            await until(lambda: bool(heard))
            await client.subscribe(b"cmd", -1)
            assert client.subscriptions == {}

    run(inner())


def test_silence_is_an_error_and_other_tasks_go_on_meanwhile() -> None:
    async def inner() -> None:
        async with node(9) as (client, _):
            client.engine.retry_ms = 240
            turns = 0
            publishing = asyncio.create_task(client.publish(b"ab", b"x", 1))
            while not publishing.done():
                turns += 1
                await asyncio.sleep(0.005)
            with pytest.raises(OSError, match=rf"^{errno.ETIMEDOUT}$"):
                await publishing
            assert turns > 10

    run(inner())


def test_a_refusal_is_an_error_below_0(gateway: GatewayProcess) -> None:
    async def inner() -> None:
        async with node(gateway.port) as (client, _):
            with pytest.raises(OSError, match=r"^-2$"):
                await client.publish(4711, b"x", 1)
            await client.publish(1, b"x", 1)
            await client.leave()
            assert client.engine.state == 0

    run(inner())
