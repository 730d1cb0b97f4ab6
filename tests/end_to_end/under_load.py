"""Sensors that keep what was not acknowledged, as they should, and who counts at the broker.

Each reading has a topic of its own, so that it can be recognised wherever it turns up.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.end_to_end.on_air import DUP, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Node, connected
from tests.support.application import delivery_tag

SENSOR_RETRY_S = 0.4
RECONNECT_S = 0.05
SETTLE_TIMEOUT_S = 200.0


@dataclass
class Field:
    """Twenty sensors, half of them at QoS 1, half at QoS 2; each sends one reading at a time."""

    port: int
    root: str
    sensors: int = 20
    readings: int = 30
    acknowledged: set[str] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Until every reading is acknowledged."""
        await asyncio.gather(*(self._sensor(number) for number in range(self.sensors)))

    @property
    def expected(self) -> set[str]:
        return {
            f"{self.root}/{number}/{count}"
            for number in range(self.sensors)
            for count in range(self.readings)
        }

    async def progress(self, share: float) -> None:
        """Waits until this share of all readings is acknowledged."""
        while len(self.acknowledged) < share * self.sensors * self.readings:
            self._changed.clear()
            await self._changed.wait()

    async def _sensor(self, number: int) -> None:
        async with connected(self.port, f"{self.root}-{number}", clean=False) as n:
            for count in range(self.readings):
                topic = f"{self.root}/{number}/{count}"
                topic_id = await self._register(n, topic, count + 1)
                await self._publish(n, topic_id, count + 1, 1 + number % 2, topic)
                self.acknowledged.add(topic)
                self._changed.set()

    async def _register(self, n: Node, topic: str, message_id: int) -> int:
        body = await exchanged(n, 0x0A, u16(0) + u16(message_id) + topic.encode(), 0x0B, 2)
        assert body[4:] == b"\x00", body.hex(" ")
        return int.from_bytes(body[:2], "big")

    async def _publish(self, n: Node, topic_id: int, message_id: int, qos: int, topic: str) -> None:
        body = bytes((qos << 5,)) + u16(topic_id) + u16(message_id) + topic.encode()
        if qos == 1:
            answer = await exchanged(n, PUBLISH, body, PUBACK, 2)
            assert answer[4:] == b"\x00", answer.hex(" ")
        else:
            await exchanged(n, PUBLISH, body, PUBREC, 0)
            await exchanged(n, PUBREL, u16(message_id), PUBCOMP, 0)


async def exchanged(n: Node, kind: int, body: bytes, answer: int, id_at: int) -> bytes:
    """Ask until this answer comes with the message id of the question; copies have DUP."""
    wanted = body[:2] if kind == PUBREL else body[3:5] if kind == PUBLISH else body[2:4]
    for attempt in range(100):
        copy = bytes((body[0] | DUP,)) + body[1:] if kind == PUBLISH and attempt else body
        await n.say(kind, copy)
        try:
            async with asyncio.timeout(SENSOR_RETRY_S):
                while True:
                    heard, content = await n.hear()
                    if heard == answer and content[id_at : id_at + 2] == wanted:
                        return content
        except TimeoutError:
            continue
    raise AssertionError(f"no {answer:#04x} after 100 tries")


class Count:
    """An application whose session the broker keeps; it connects again whenever it has to."""

    def __init__(self, broker: Mosquitto, topic_filter: str) -> None:
        self.tags: dict[str, set[str]] = {}  # by topic: all sequences it came under
        self.ready = asyncio.Event()
        self._changed = asyncio.Event()
        self._broker = broker
        self._filter = topic_filter

    async def run(self) -> None:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 3600
        while True:
            try:
                async with aiomqtt.Client(
                    "127.0.0.1",
                    self._broker.port,
                    identifier=f"count-{self._filter.split('/')[0]}",
                    protocol=aiomqtt.ProtocolVersion.V5,
                    clean_start=False,
                    properties=properties,
                ) as client:
                    # At QoS 1, because a new client knows of no PUBREC that its last one sent; and
                    # what was acknowledged before the connection broke is heard all the same.
                    with suppress(aiomqtt.MqttError):
                        await client.subscribe(self._filter, qos=1)
                        self.ready.set()
                    async for message in client.messages:
                        self._note(message)
            except aiomqtt.MqttError:
                await asyncio.sleep(RECONNECT_S)

    def _note(self, message: aiomqtt.Message) -> None:
        topic = message.topic.value
        self.tags.setdefault(topic, set()).add(delivery_tag(message)["seq"])
        self._changed.set()

    async def heard_all(self, expected: set[str]) -> None:
        try:
            async with asyncio.timeout(SETTLE_TIMEOUT_S):
                while not expected <= self.tags.keys():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            missing = sorted(expected - self.tags.keys())
            raise AssertionError(f"{len(missing)} missing: {missing[:10]}") from None

    def assert_numbered_without_holes(self) -> None:
        """Each reading under one sequence, however often it came, and no sequence left out."""
        several = {topic: tags for topic, tags in self.tags.items() if len(tags) != 1}
        assert not several, several
        sequences = sorted(int(tag) for tags in self.tags.values() for tag in tags)
        assert sequences == list(range(len(sequences)))
