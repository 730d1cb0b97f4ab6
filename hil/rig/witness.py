"""A subscriber that records what arrives at the broker, with its delivery tag, over restarts of it.

It subscribes at QoS 0 and keeps no session: mosquitto writes a message to the sockets of such
subscribers before it acknowledges it to the publisher, and what is written the kernel delivers,
also when the broker is killed then. So whatever the broker acknowledged while the witness was
there, the witness has. For that no publisher may be
let through before `ready` is set again after a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import mqtt5

from hil.rig.packets import subscription, take

RECONNECT_S = 0.02
READ_BYTES = 1 << 18


class Tag(NamedTuple):
    """By which a consumer drops repeats."""

    gateway: str
    epoch: int
    sequence: int


class Seen(NamedTuple):
    topic: str
    payload: bytes
    tag: Tag
    at: float  # of the monotonic clock


class Witness:
    def __init__(
        self, port: int, topic_filter: str, host: str = "127.0.0.1", name: str = "witness"
    ) -> None:
        self.seen: list[Seen] = []
        self.payloads: set[bytes] = set()
        self.ready = asyncio.Event()
        self._changed = asyncio.Event()
        self._address = host, port
        self._name = name
        self.on_seen: Callable[[], None] = lambda: None
        self._filter = topic_filter

    async def run(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                await self._watch()
            await asyncio.sleep(RECONNECT_S)

    async def _watch(self) -> None:
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            writer.write(subscription(self._name, self._filter))
            left = b""
            while received := await reader.read(READ_BYTES):
                left = take(left + received, self._receive)
                self._changed.set()
        finally:
            writer.close()

    def _receive(self, packet: mqtt5.Packet) -> None:
        match packet:
            case mqtt5.PublishPacket():
                self._note(packet)
            case mqtt5.SubAckPacket():
                self.ready.set()

    def _note(self, packet: mqtt5.PublishPacket) -> None:
        tag = dict(packet.user_properties)
        if not {"gw", "epoch", "seq"} <= tag.keys():  # QoS 0, or from another publisher
            return
        self.seen.append(
            Seen(
                topic=packet.topic,
                payload=bytes(packet.payload or b""),
                tag=Tag(tag["gw"], int(tag["epoch"]), int(tag["seq"])),
                at=time.monotonic(),
            )
        )
        self.payloads.add(self.seen[-1].payload)
        self.on_seen()

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
async def witnessing(
    port: int, topic_filter: str, host: str = "127.0.0.1"
) -> AsyncIterator[Witness]:
    witness = Witness(port=port, topic_filter=topic_filter, host=host)
    task = asyncio.create_task(witness.run(), name="witness")
    await witness.ready.wait()
    try:
        yield witness
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
