"""Who sees at the broker what arrives, with its delivery tag, over every end of the broker.

It subscribes at QoS 0 and keeps no session: mosquitto writes a message to the sockets of such
subscribers before it acknowledges it to the publisher, and what is written the kernel delivers,
also when the broker is killed then. So whatever the broker acknowledged while the witness was
there, the witness has. Who needs that must let nobody publish before `ready` is set again after a
restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiomqtt

from tests.support.application import delivery_tag
from tests.support.mosquitto import Mosquitto

RECONNECT_S = 0.02


class Tag(NamedTuple):
    """By which a consumer drops repeats."""

    gateway: str
    epoch: int
    sequence: int


class Seen(NamedTuple):
    topic: str
    payload: bytes
    tag: Tag


class Witness:
    def __init__(self, broker: Mosquitto, topic_filter: str) -> None:
        self.seen: list[Seen] = []
        self.payloads: set[bytes] = set()
        self.ready = asyncio.Event()
        self._changed = asyncio.Event()
        self._broker = broker
        self._filter = topic_filter

    async def run(self) -> None:
        while True:
            try:
                async with aiomqtt.Client(
                    "127.0.0.1", self._broker.port, protocol=aiomqtt.ProtocolVersion.V5
                ) as client:
                    await client.subscribe(self._filter, qos=0)
                    self.ready.set()
                    async for message in client.messages:
                        self._note(message)
            except aiomqtt.MqttError:
                await asyncio.sleep(RECONNECT_S)

    def _note(self, message: aiomqtt.Message) -> None:
        assert isinstance(message.payload, bytes)
        tag = delivery_tag(message)
        self.seen.append(
            Seen(
                message.topic.value,
                message.payload,
                Tag(tag["gw"], int(tag["epoch"]), int(tag["seq"])),
            )
        )
        self.payloads.add(message.payload)
        self._changed.set()

    async def until(self, is_so: Callable[[], bool], timeout_s: float) -> bool:
        """Whether it became so in time; looked at whenever something has come."""
        try:
            async with asyncio.timeout(timeout_s):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True


@asynccontextmanager
async def witnessing(broker: Mosquitto, topic_filter: str) -> AsyncIterator[Witness]:
    witness = Witness(broker, topic_filter)
    task = asyncio.create_task(witness.run(), name="witness")
    await witness.ready.wait()
    try:
        yield witness
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
