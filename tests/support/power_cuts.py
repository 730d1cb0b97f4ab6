"""One sensor, one gateway and one broker that keep to their protocols, and power that goes away.

Every effect of the gateway is a step, performed alone; the power may go after any of them. In
between, what is under way (frames, packets, the disk) happens in an order that the seed decides.
What the gateway sent is under way still when it stops; what was sent to it is lost. The broker
keeps its session, and sends again what was not acknowledged.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import mqtt5

from gateway.core.downlink.write_behind import SOON_S
from gateway.core.effects import Effect, Save, Send, Transmit, WhenSaved
from gateway.core.engine import Engine, EngineOptions
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    Suback,
    Subscribe,
    encode,
)
from tests.support.engine_bench import UPSTREAM
from tests.support.mqtt_packets import packets_in
from tests.support.state_bench import Rows

TURNS_MAX = 2000
ADDRESS = b"sensor"
RETRY_S = 10.0


@dataclass
class Sensor:
    """Acknowledges everything; knows a QoS 2 message again by its id until PUBREL."""

    sleeps: bool
    heard: list[bytes] = field(default_factory=list)
    received: set[int] = field(default_factory=set)
    is_subscribed: bool = False
    asks: Frame | None = None  # what it repeats until it is answered
    is_resting: bool = False

    def hear(self, frame: Frame, qos: int) -> list[Frame]:
        match frame:
            case Register(topic_id, message_id):
                return [Regack(topic_id, message_id, 0)]
            case Publish(topic_id, message_id, payload, 2):
                if message_id not in self.received:
                    self.received.add(message_id)
                    self.heard.append(payload)
                return [Pubrec(message_id)]
            case Publish(topic_id, message_id, payload):
                self.heard.append(payload)
                return [Puback(topic_id, message_id, 0)]
            case Pubrel(message_id):
                self.received.discard(message_id)
                return [Pubcomp(message_id)]
        return self.go_on(frame, qos)

    def go_on(self, answer: Frame | None, qos: int) -> list[Frame]:
        """CONNECT, then SUBSCRIBE, then perhaps sleep; each until it is answered."""
        match self.asks, answer:
            case None, None:
                self.asks = Connect(b"s1", 0)
            case Connect(), Connack():
                self.asks = Subscribe(7, b"cmd", qos)
            case Subscribe(), Disconnect():  # one that had only connected is not remembered
                self.asks = Connect(b"s1", 0)
            case Subscribe(), Suback():
                self.is_subscribed = True
                self.asks = Disconnect(600) if self.sleeps else None
            case Disconnect(), Disconnect():
                self.is_resting = True
                self.asks = None
            case Pingreq(), Pingresp():
                self.is_resting = True
                self.asks = None
            case _:
                return []
        return [] if self.asks is None else [self.asks]

    def wake(self) -> list[Frame]:
        self.is_resting = False
        self.asks = Pingreq(b"s1")
        return [self.asks]


@dataclass
class Broker:
    """Its session of the gateway: what is in flight, in order, and whether PUBREC came."""

    in_flight: dict[int, tuple[bytes, int]] = field(default_factory=dict)  # payload and QoS
    released: set[int] = field(default_factory=set)
    is_known: bool = False
    is_connected: bool = False

    def hear(self, packet: Any) -> list[Any]:
        match packet:
            case mqtt5.ConnectPacket():
                known, self.is_known = self.is_known, True
                self.is_connected = True
                return [mqtt5.ConnAckPacket(session_present=known), *self.again()]
            case mqtt5.SubscribePacket():
                codes = [mqtt5.SubAckReasonCode(int(one.max_qos)) for one in packet.topic_filters]
                return [mqtt5.SubAckPacket(packet.packet_id, codes)]
            case mqtt5.PubAckPacket() | mqtt5.PubCompPacket():
                self.in_flight.pop(packet.packet_id, None)
                self.released.discard(packet.packet_id)
            case mqtt5.PubRecPacket() if packet.packet_id in self.in_flight:
                self.released.add(packet.packet_id)
                return [mqtt5.PubRelPacket(packet.packet_id)]
            case mqtt5.PingReqPacket():
                return [mqtt5.PingRespPacket()]
        return []

    def publish(self, payload: bytes, qos: int) -> list[Any]:
        packet_id = next(number for number in range(1, 99) if number not in self.in_flight)
        self.in_flight[packet_id] = (payload, qos)
        return [publication(packet_id, payload, qos, dup=False)] if self.is_connected else []

    def again(self) -> list[Any]:
        return [
            mqtt5.PubRelPacket(packet_id)
            if packet_id in self.released
            else publication(packet_id, payload, qos, dup=True)
            for packet_id, (payload, qos) in self.in_flight.items()
        ]


def publication(packet_id: int, payload: bytes, qos: int, *, dup: bool) -> mqtt5.PublishPacket:
    return mqtt5.PublishPacket(
        "cmd", payload, qos=mqtt5.QoS(qos), packet_id=packet_id, subscription_ids=[2],
        duplicate=dup,
    )  # fmt: skip


class World:
    def __init__(
        self,
        seed: int,
        *,
        qos: int,
        sleeps: bool,
        cuts: tuple[int, ...] = (),
        breaks: tuple[int, ...] = (),
        messages: int = 3,
    ) -> None:
        """The power goes after each of these steps; so does the connection to the broker."""
        self.dice = Random(seed)
        self.qos = qos
        self.cuts = cuts
        self.breaks = list(breaks)
        self.steps = 0
        self.now = 0.0
        self.rows = Rows()
        self.sensor = Sensor(sleeps)
        self.broker = Broker()
        self.to_publish = [b"%d" % number for number in range(messages)]
        self.published: list[bytes] = []
        self.options = EngineOptions(UPSTREAM, saves=True)
        self.effects: deque[Effect] = deque()
        self.to_gateway: deque[Frame] = deque()
        self.to_sensor: deque[Frame] = deque()
        self.from_broker: deque[Any] = deque()
        self.at_broker: deque[Any] = deque()
        self.engine = Engine(self.options)
        self._start()

    def run(self) -> World:
        self.to_gateway.extend(self.sensor.go_on(None, self.qos))
        for _ in range(TURNS_MAX):
            if self._is_over():
                return self
            if self.effects:
                self._perform(self.effects.popleft())
                self.steps += 1
                if self.steps in self.cuts:
                    self._cut_power()
            elif self.breaks and self.steps >= self.breaks[0]:
                self.breaks.pop(0)
                self._break()
            else:
                self._happen()
        raise AssertionError(f"still busy: {self.sensor}, {self.broker}")

    # What happens, one thing after the other

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self.to_sensor.append(effect.frame)
        elif isinstance(effect, Transmit):
            self.at_broker += packets_in(effect.packet)
        elif isinstance(effect, Save):
            change = effect.change
            # As it is now: it may be handed to another thread before it changes.
            self.rows.pending.append(replace(change) if hasattr(change, "position") else change)
        elif isinstance(effect, WhenSaved):
            self.rows.waiting += effect.then

    def _happen(self) -> None:
        ready = self._ready()
        if not ready:
            self._wait()
            return
        chosen = self.dice.choice(ready)
        if chosen is self.engine:
            self.now += SOON_S
            self.effects += self.engine.handle_time(self.now)
        elif chosen is self.rows:
            self.effects += self.engine.durable(self.rows.commit(), self.now)
        elif chosen is self.to_publish:
            self.published.append(self.to_publish.pop(0))
            self.from_broker += self.broker.publish(self.published[-1], self.qos)
        elif chosen is self.to_gateway:
            frame = encode(self.to_gateway.popleft())
            self.effects += self.engine.receive(0, [(ADDRESS, frame)], self.now)
        elif chosen is self.from_broker:
            octets = self.from_broker.popleft().write()
            self.effects += self.engine.receive_upstream(octets, self.now)
        elif chosen is self.to_sensor:
            self.to_gateway += self.sensor.hear(self.to_sensor.popleft(), self.qos)
        else:
            self.from_broker += self.broker.hear(self.at_broker.popleft())

    def _ready(self) -> list[Any]:
        choices = [self.to_gateway, self.to_sensor, self.from_broker, self.at_broker]
        ready: list[Any] = [queue for queue in choices if queue]
        if self.rows.pending or self.rows.waiting:
            ready.append(self.rows)
        if self.sensor.is_subscribed and self.to_publish:
            ready.append(self.to_publish)
        if self.engine.wake_at() <= self.now + SOON_S:
            ready.append(self.engine)
        return ready

    def _wait(self) -> None:
        """Nothing is under way: the sensor repeats itself, or time brings something."""
        if self.sensor.is_resting and (self.broker.in_flight or self._waiting()):
            self.to_gateway += self.sensor.wake()
            return
        self.now += RETRY_S
        self.effects += self.engine.handle_time(self.now)
        if self.sensor.asks is not None:
            self.to_gateway.append(self.sensor.asks)

    def _cut_power(self) -> None:
        self.rows.lose_power()
        for queue in (self.effects, self.to_gateway, self.from_broker):
            queue.clear()
        # What the broker had read of the connection counts; the rest went with it.
        self.at_broker.clear()
        self.broker.is_connected = False
        self._start()

    def _break(self) -> None:
        """The connection to the broker ends, with what was under way in it."""
        self.from_broker.clear()
        self.at_broker.clear()
        self.broker.is_connected = False
        self.effects += self.engine.closed(self.now, by_broker=True)
        self.effects += self.engine.opened(self.now)

    def _start(self) -> None:
        self.engine = Engine(self.options)
        self.effects += self.engine.restore(self.rows.state(), self.now)
        self.effects += self.engine.opened(self.now)

    # The end

    def _waiting(self) -> int:
        return sum(session.outbound.waiting for session in self.engine.sessions.values())

    def _is_over(self) -> bool:
        is_idle = not (self.to_publish or self.broker.in_flight or self._waiting())
        under_way = self.effects or self.to_gateway or self.to_sensor or self.at_broker
        return is_idle and not under_way and self.sensor.is_subscribed and not self.rows.pending
