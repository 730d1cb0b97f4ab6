"""A gateway in virtual time, with its real journal, state store and watch, between sensors and a
broker that do as the test says. The watch looks each second, as in the daemon.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import mqtt5

from gateway.admin.part_numbers import Cause
from gateway.core.engine import EngineOptions
from gateway.core.mqtt.options import MqttOptions
from gateway.core.mqtt.session import Phase
from gateway.core.session.options import SessionOptions
from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.core.uplink.uplink import UplinkOptions
from gateway.frames import (
    Connect,
    Frame,
    Pingreq,
    Puback,
    Subscribe,
    TopicIdType,
    decode,
    encode,
)
from tests.simulation.agenda import Agenda
from tests.simulation.disk import Disk
from tests.simulation.gateway_host import GatewayHost
from tests.simulation.model_broker import ModelBroker, Restart
from tests.simulation.standstills import watch_over
from tests.support.engine_bench import short
from tests.support.mqtt_packets import packets_in

BUDGET_BYTES = 256 << 10
WINDOW = 4
TP = int.from_bytes(b"tp", "big")


class SteadyDisk(Disk):
    """Each job takes as long as the one before."""

    job_takes_s = 0.001

    def job_s(self, _now: float) -> float:
        return self.job_takes_s


class WatchedGateway:
    def __init__(
        self, acknowledge: Acknowledge = Acknowledge.AUTO, *, trust_session: bool = False
    ) -> None:
        self.agenda = Agenda()
        self.disk = SteadyDisk(Random(1), 0.001, BUDGET_BYTES)
        self.disk.heal()
        self.broker = ModelBroker(WINDOW)
        self.heard: list[tuple[bytes, Frame]] = []
        self.history: dict[str, set[Cause]] = {}  # what stood still, ever
        self.unanswered: Callable[[Any], bool] = lambda _packet: False  # by the broker

        def options(epoch: int) -> EngineOptions:
            return EngineOptions(
                MqttOptions("gh", epoch, "tidegate-gh", trust_session=trust_session),
                session=SessionOptions(),
                saves=True,
                uplink=UplinkOptions(ReadingOptions(acknowledge), ()),
            )

        self.host = GatewayHost(options, self.agenda, Random(2), self.broker, self.disk, 0.0)
        self.host.send = self._hear
        self.host.start()
        self.watch = watch_over(self.host)
        self.run(1.0)

    @property
    def now(self) -> float:
        return self.agenda.now

    @property
    def engine(self) -> Any:
        return self.host.engine

    @property
    def found(self) -> dict[str, Cause]:
        """What stands still now."""
        return {one.name.value: one.cause for one in self.watch.found}

    def run(self, seconds: float) -> None:
        """Let time go by."""
        end = self.now + seconds
        while self.now < end:
            until = min(end, self.now + 1.0)
            while (at := self.agenda.next_at()) is not None and at <= until:
                self.agenda.happen()
            self.agenda.now = until
            self._filter_packets()
            self.watch.look(self.now)
            for name, cause in self.found.items():
                self.history.setdefault(name, set()).add(cause)

    # Sensors

    def say(self, address: bytes, *frames: Frame) -> list[Frame]:
        """What the sensor has received a tenth of a second later, if nothing waits."""
        before = len(self.heard)
        self._filter_packets()
        for frame in frames:
            self.host.receive(address, encode(frame))
        while (at := self.agenda.next_at()) is not None and at <= self.now + 0.1:
            self.agenda.happen()
        return [frame for to, frame in self.heard[before:] if to == address]

    def join(self, *names: bytes, keep_alive_s: int = 0) -> None:
        """Each at an address of its name, with a session that lasts, and believed there."""
        for name in names:
            self.say(name, Connect(name, keep_alive_s, clean_session=False))
            self.say(name, Pingreq())

    def _hear(self, address: bytes, datagram: bytes) -> None:
        self.heard.append((address, decode(datagram)))

    # The broker

    def lose_broker(self) -> None:
        self.broker.stop()

    def bring_broker_back(self) -> None:
        self.broker.start(Restart.KEPT)
        while self.engine.upstream.phase is not Phase.UP:
            self.run(0.1)

    def _filter_packets(self) -> None:
        """What the broker leaves `unanswered` does not come to it."""
        connection = self.host.connection
        if connection is None or hasattr(connection.to_broker, "is_filtered"):
            return
        pipe: Any = connection.to_broker
        pipe.is_filtered, write = True, pipe.write

        def passed(octets: bytes) -> None:
            kept = [one for one in packets_in(octets) if not self.unanswered(one)]
            if kept:
                write(b"".join(one.write() for one in kept))

        pipe.write = passed


def is_reading(packet: Any) -> bool:
    return isinstance(packet, mqtt5.PublishPacket) and int(packet.qos) > 0


def subscribe(message_id: int, topic: bytes = b"tp", qos: int = 1) -> Subscribe:
    return Subscribe(message_id, topic, qos, topic_id_type=TopicIdType.SHORT)


def queued(acknowledge: Acknowledge = Acknowledge.AUTO) -> WatchedGateway:
    """With readings on disk, and the broker away."""
    gateway = WatchedGateway(acknowledge)
    gateway.join(b"s1")
    gateway.lose_broker()
    gateway.run(10.0)
    for number in range(10):
        assert gateway.say(b"s1", short(b"hi", 1, 7 + number)) == [Puback(TP, 7 + number, 0)]
    return gateway
