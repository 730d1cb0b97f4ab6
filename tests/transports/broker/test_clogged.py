"""A broker that takes nothing for a while: the shell stops writing, and goes on by itself."""

from __future__ import annotations

import asyncio

import mqtt5

from gateway.app.shell import Shell
from gateway.core.effects import Effect
from gateway.core.engine import Engine, EngineOptions
from gateway.core.mqtt.options import MqttOptions
from gateway.core.topic_options import ReadingOptions, UplinkOptions
from gateway.frames import Connect, Publish, Register, encode
from gateway.transports.broker.link import BrokerLink
from tests.transports.broker.server import Server, Upper, link_to, server
from tests.transports.certificates import Certificates
from tests.transports.conftest import Run
from tests.transports.eventually import eventually

SENSOR = b"sensor"
READING = bytes(1000)
WAITING = 32  # readings at QoS 1 that come when nothing is written any more
MOST = 60_000  # of any kernel's buffers


class NobodyListens:
    """In place of a link to sensors."""

    address_bytes = len(SENSOR)

    def send_all(self, datagrams: list[tuple[bytes, bytes]]) -> None:
        pass


class Above(Upper):
    """The link's upper side is the shell itself."""

    shell: Shell

    def opened(self) -> None:
        self.shell.on_open()

    def bytes(self, data: bytes) -> None:
        self.shell.on_bytes(data)

    def closed(self, reason: str, by_broker: bool) -> None:
        self.shell.on_closed(reason, by_broker)


class Clogging:
    """An engine with its shell, and a broker's port at which nobody answers but by CONNACK."""

    def __init__(self, serving: Server, secured: Certificates | None) -> None:
        straight = UplinkOptions(ReadingOptions(), (), 1e9)
        self.engine = Engine(EngineOptions(MqttOptions("gh", 1, "tidegate-gh"), uplink=straight))
        loop = asyncio.get_running_loop()
        self.shell = Shell(self.engine, self._hear, loop)
        self.shell.connect_links([NobodyListens()], {}, bool)
        above = Above(on_room=self.shell.on_room)
        above.shell = self.shell
        self.link: BrokerLink = link_to(serving.port, above, certificates=secured)
        self.shell.connect_broker(self.link)
        self.serving = serving
        self.sent = 0
        self.link.start(loop)

    def _hear(self, news: Effect) -> None:
        pass

    async def connect(self) -> None:
        await eventually(lambda: self.serving.received, "CONNECT")
        self.serving.connections[0].write(mqtt5.ConnAckPacket().write())
        await eventually(lambda: self.engine.upstream.publisher.is_open, "the session")
        self.say(Connect(SENSOR, 3600), Register(0, 1, b"t"))

    def say(self, *frames: Connect | Register | Publish) -> None:
        self.shell.on_datagrams(0, [(SENSOR, encode(each)) for each in frames])

    def read(self) -> None:
        """A reading without acknowledgement, so that nothing but room lets it go on."""
        self.sent += 1
        self.say(Publish(1, 0, b"%06d" % self.sent + READING, 0))


def _whole(serving: Server, number: int) -> bool:
    return b"%06d" % number + READING in serving.received


def test_what_waits_goes_on_as_soon_as_there_is_room(
    run: Run, secured: Certificates | None
) -> None:
    async def story() -> None:
        async with server(secured) as serving:
            here = Clogging(serving, secured)
            await here.connect()
            serving.connections[0].pause_reading()
            while not here.engine.is_congested and here.sent < MOST:
                here.read()
                await asyncio.sleep(0)
            assert here.engine.is_congested
            for number in range(WAITING):
                here.say(Publish(1, 1 + number, b"waits %03d" % number, 1))
            in_flight = here.engine.upstream.publisher.in_flight
            assert len(in_flight.waiting) == WAITING
            serving.connections[0].resume_reading()
            await eventually(lambda: _whole(serving, here.sent), "what was written")
            await eventually(lambda: not here.engine.is_congested, "room")
            assert not in_flight.has_waiting
            await eventually(
                lambda: b"waits %03d" % (WAITING - 1) in serving.received, "what waited"
            )
            await here.link.stop()

    run(story())
