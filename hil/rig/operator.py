"""A client of the broker that answers requests of nodes, and publishes messages for them.

It keeps no session. What it is to publish waits until the broker has it, over any number of its
ends; the time is answered as `firmware.ota_server` answers it.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import mqtt5

from hil.rig.packets import subscription, take

RECONNECT_S = 0.02
READ_BYTES = 1 << 16
PUBLISH_S_MAX = 20.0
TIME = b"T"
TIME_QUESTION_OCTETS = 5
PACKET_IDS = 65_535


class Operator:
    def __init__(self, port: int, topics: str, host: str = "127.0.0.1") -> None:
        """`topics`: a filter, of those on which nodes ask."""
        self.ready = asyncio.Event()
        self._address = host, port
        self._topics = topics
        self._writer: asyncio.StreamWriter | None = None
        self._acknowledged: dict[int, asyncio.Event] = {}
        self._packet_id = 0

    async def run(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                await self._work()
            self._writer = None
            self.ready.clear()
            await asyncio.sleep(RECONNECT_S)

    async def publish(self, topic: str, payload: bytes, *, retain: bool) -> None:
        """At QoS 1; returns when the broker has it."""
        self._packet_id = self._packet_id % PACKET_IDS + 1
        packet_id, came = self._packet_id, asyncio.Event()
        self._acknowledged[packet_id] = came
        packet = mqtt5.PublishPacket(
            topic, payload=payload, qos=mqtt5.QoS.AT_LEAST_ONCE, retain=retain, packet_id=packet_id
        )
        async with asyncio.timeout(PUBLISH_S_MAX):
            while not came.is_set():
                await self.ready.wait()
                assert self._writer is not None
                self._writer.write(packet.write())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        await came.wait()

    async def _work(self) -> None:
        reader, self._writer = await asyncio.open_connection(*self._address)
        try:
            self._writer.write(subscription("operator", self._topics))
            left = b""
            while received := await reader.read(READ_BYTES):
                left = take(left + received, self._receive)
        finally:
            self._writer.close()

    def _receive(self, packet: mqtt5.Packet) -> None:
        match packet:
            case mqtt5.SubAckPacket():
                self.ready.set()
            case mqtt5.PubAckPacket():
                if packet.packet_id in self._acknowledged:
                    self._acknowledged.pop(packet.packet_id).set()
            case mqtt5.PublishPacket():
                self._answer(packet.topic, bytes(packet.payload or b""))

    def _answer(self, topic: str, question: bytes) -> None:
        if question[:1] != TIME or len(question) != TIME_QUESTION_OCTETS:
            return
        assert self._writer is not None
        answer = question + struct.pack(">Q", time.time_ns() // 1_000_000)
        to = topic.removesuffix("/ask") + "/set/answer"
        self._writer.write(mqtt5.PublishPacket(to, payload=answer).write())


@asynccontextmanager
async def operating(port: int, topics: str, host: str = "127.0.0.1") -> AsyncIterator[Operator]:
    operator = Operator(port, topics, host)
    task = asyncio.create_task(operator.run(), name="operator")
    await operator.ready.wait()
    try:
        yield operator
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
