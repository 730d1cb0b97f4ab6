"""A broker that ends the connection for some of what it gets, and the session that talks to it.

It reads packet by packet, in order, and answers at once. A packet for which it ends the connection
is the last that it reads. What becomes of each reading and filter is noted, however often.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import mqtt5

from gateway.core.effects import ConnectRecorded, RecordConnect, Transmit
from gateway.core.events import (
    FilterRefused,
    Output,
    ReadingRefused,
    ReadingsAcknowledged,
    ReadingSetAside,
    SubscriptionGranted,
)
from gateway.core.mqtt.caution import SHORT_MAX, Key, Suspicion
from gateway.core.mqtt.session import MqttSession, Phase
from gateway.core.values import Reading
from tests.core.mqtt.broker_side import (
    new_reading,
    options,
    puback,
    pubcomp,
    pubrec,
    suback,
    unsuback,
)
from tests.support.mqtt_packets import packets_in

RECONNECT_S = 1.0
CONNECTIONS_MAX = 400

Kind = TypeVar("Kind")
Culprit = Callable[[Any], bool]


def topics(*names: str) -> Culprit:
    """A PUBLISH on one of these."""
    return lambda packet: isinstance(packet, mqtt5.PublishPacket) and packet.topic in names


def filters(*names: str) -> Culprit:
    """A SUBSCRIBE for one of these."""

    def ends_for(packet: Any) -> bool:
        if not isinstance(packet, mqtt5.SubscribePacket):
            return False
        return any(each.pattern in names for each in packet.topic_filters)

    return ends_for


def more_filters_than(count: int) -> Culprit:
    """A SUBSCRIBE with more."""
    return lambda packet: (
        isinstance(packet, mqtt5.SubscribePacket) and len(packet.topic_filters) > count
    )


class EndingBroker:
    def __init__(
        self,
        ends_for: Culprit = lambda _packet: False,
        *,
        refuses: Iterable[str] = (),
        changed: dict[str, object] | None = None,
        **connack: Any,
    ) -> None:
        """`refuses`: topics that it answers with 0x87 before it ends the connection."""
        self.session = MqttSession(options(**(changed or {})))
        self.ends_for = ends_for
        self.refuses = set(refuses)
        self.connack = connack
        self.codes: dict[str, int] = {}  # what PUBLISH on a topic is answered with
        self.holds = False  # whether it keeps its answers to itself, but those to pings
        self.now = 0.0
        self.connections = 0
        self.read: list[Any] = []  # packets, of this connection
        self.delivered: list[bytes] = []  # payloads, as it passed them on
        self.received: dict[int, mqtt5.PublishPacket] = {}  # QoS 2, and not passed on yet
        self.at_broker: set[str] = set()  # filters
        self.acknowledged: list[Reading] = []
        self.refused: list[Reading] = []
        self.set_aside: list[Reading] = []
        self.granted: set[str] = set()
        self.filters_refused: list[str] = []
        self.news: list[Output] = []
        self._wire: deque[Any] = deque()

    # What the engine does

    def publish(self, *readings: Reading) -> None:
        for reading in readings:
            sent = self.session.publisher.publish(reading)
            self.take([] if sent is None else [sent])
            if self.session.caution.is_on:
                self.take(self.session.publisher.pump(self.now))

    def want(self, *filters: str, qos: int = 1) -> None:
        for each in filters:
            self.session.subscriptions.want(each, qos, retained=True)
        self.take(self.session.subscriptions.advance())

    def unwant(self, *filters: str) -> None:
        for each in filters:
            self.session.subscriptions.unwant(each)
        self.take(self.session.subscriptions.advance())

    def say(self, topic: str) -> None:
        self.take(self.session.say(topic, b"on"))

    def take(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, Transmit):
                self._wire += packets_in(output.packet)
            elif isinstance(output, ReadingsAcknowledged):
                self.acknowledged += output.readings
            elif isinstance(output, ReadingRefused):
                self.refused.append(output.reading)
            elif isinstance(output, ReadingSetAside):
                self.set_aside.append(output.reading)
            elif isinstance(output, SubscriptionGranted):
                self.granted.add(output.topic_filter)
            elif isinstance(output, FilterRefused):
                self.filters_refused.append(output.topic_filter)
                self.session.subscriptions.unwant(output.topic_filter)
            else:
                self.news.append(output)

    # The connection

    def connect(self, **connack: Any) -> None:
        self.connections += 1
        if not connack.get("session_present"):
            self.received.clear()
            self.at_broker.clear()
        self.read.clear()
        self._wire.clear()
        for output in self.session.opened(self.now):
            if isinstance(output, RecordConnect):
                assert isinstance(output.then, ConnectRecorded)
                self.session.connect(output.then, self.now)
        packet = mqtt5.ConnAckPacket(**(self.connack | connack))
        self.take(self.session.receive(packet.write(), self.now))

    def end(self, *, by_broker: bool = True) -> None:
        """The connection; what was written and not read is lost."""
        self._wire.clear()
        self.take(self.session.closed(self.now, by_broker=by_broker))
        self._wire.clear()

    def answer(self) -> bool:
        """Read one packet; False if there is none or the connection has ended."""
        if not self._wire or self.session.phase is not Phase.UP:
            return False
        packet = self._wire.popleft()
        self.read.append(packet)
        if self.ends_for(packet):
            self.end()
            return False
        if isinstance(packet, mqtt5.PublishPacket) and packet.topic in self.refuses:
            if int(packet.qos):
                answer = puback if int(packet.qos) == 1 else pubrec
                self.receive(answer(packet.packet_id or 0, 0x87))
            self.end()
            return False
        is_held = self.holds and not isinstance(packet, mqtt5.PingReqPacket)
        written = b"" if is_held else self._answer_to(packet)
        if written:
            self.receive(written)
        return True

    def receive(self, written: bytes) -> None:
        self.take(self.session.receive(written, self.now))

    def _answer_to(self, packet: Any) -> bytes:
        match packet:
            case mqtt5.PublishPacket():
                code = self.codes.get(packet.topic, 0)
                payload = packet.payload or b""
                if int(packet.qos) == 2 and not code:
                    self.received[packet.packet_id or 0] = packet
                elif not code:
                    self.delivered.append(payload)
                if not int(packet.qos):
                    return b""
                answer = puback if int(packet.qos) == 1 else pubrec
                return answer(packet.packet_id or 0, code)
            case mqtt5.PubRelPacket():
                received = self.received.pop(packet.packet_id, None)
                self.delivered += [] if received is None else [received.payload or b""]
                return pubcomp(packet.packet_id)
            case mqtt5.SubscribePacket():
                patterns = [each.pattern for each in packet.topic_filters]
                self.at_broker |= set(patterns)
                return suback(packet.packet_id, *[2] * len(patterns))
            case mqtt5.UnsubscribePacket():
                self.at_broker -= set(packet.patterns)
                return unsuback(packet.packet_id, len(packet.patterns))
            case mqtt5.PingReqPacket():
                return mqtt5.PingRespPacket().write()
        return b""

    def run(self) -> None:
        """Until all that was written is answered, or the connection has ended."""
        while self.answer():
            pass

    def wake(self, until: float) -> None:
        """Time passes, within the connection."""
        while self.session.phase is Phase.UP and self.session.wake_at() <= until:
            self.now = max(self.now, self.session.wake_at())
            self.take(self.session.handle_time(self.now))
            self.run()
        self.now = max(self.now, until)

    def finish(self, connections_max: int = CONNECTIONS_MAX) -> None:
        """Connect as often as it takes until all that waits has found its end."""
        for _ in range(connections_max):
            if self.session.phase is not Phase.UP:
                self.now += RECONNECT_S
                self.connect(session_present=self.connections > 0)
            self.run()
            if self.session.phase is Phase.UP:
                self.wake(self.now + 5.0)
            if self.session.phase is Phase.UP and self.is_done:
                return
        raise AssertionError(f"not done after {self.connections} connections: {self.left()}")

    @property
    def is_done(self) -> bool:
        return not self.left()

    def left(self) -> list[object]:
        """What waits for something."""
        in_flight, subscriptions = self.session.publisher.in_flight, self.session.subscriptions
        left: list[object] = [*in_flight.unacknowledged()]
        if not subscriptions.acknowledged or subscriptions.unanswered is not None:
            left.append("filters")
        return left

    # What the tests ask

    def published(self) -> list[bytes]:
        """Payloads of readings that were read in this connection, in order."""
        packets = [each for each in self.read if isinstance(each, mqtt5.PublishPacket)]
        return [each.payload or b"" for each in packets if "tidegate/" not in each.topic]

    def released_topic(self, packet: Any) -> str | None:
        """Of a reading that is passed on with this packet."""
        if isinstance(packet, mqtt5.PublishPacket) and int(packet.qos) < 2:
            return packet.topic
        if isinstance(packet, mqtt5.PubRelPacket) and packet.packet_id in self.received:
            return self.received[packet.packet_id].topic
        return None

    def subscribed(self) -> list[list[str]]:
        """The filters of the SUBSCRIBE packets that were read in this connection."""
        packets = [each for each in self.read if isinstance(each, mqtt5.SubscribePacket)]
        return [[each.pattern for each in packet.topic_filters] for packet in packets]

    def reported(self, kind: type[Kind]) -> list[Kind]:
        return [each for each in self.news if isinstance(each, kind)]


def reading(topic: str, qos: int = 1, *, client: str = "s1", payload: bytes = b"1") -> Reading:
    return new_reading(payload, qos, topic=topic, client=client)


def probing() -> EndingBroker:
    """`t` is proven, and the connection is there again after an outage."""
    broker = EndingBroker(changed={"probe_s": 10.0})
    broker.connect()
    broker.publish(reading("t"))
    broker.run()
    broker.end(by_broker=False)
    return broker


def everything_alone(broker: EndingBroker) -> None:
    """The next connection is one in which everything goes alone."""
    broker.connect()
    broker.run()
    for _ in range(SHORT_MAX):
        broker.end()
        broker.connect(session_present=True)
    broker.end(by_broker=False)
    broker.session.caution.suspects.clear()


def disconnect(code: int) -> bytes:
    return mqtt5.DisconnectPacket(reason_code=mqtt5.DisconnectReasonCode(code)).write()


def suspect(broker: EndingBroker, key: Key) -> None:
    """A former connection has ended with it."""
    broker.session.caution.suspects[key] = Suspicion(1, 0.0)
    broker.session.caution._update()


def brought_to_its_end(
    broker: EndingBroker, *readings: Reading, wants: tuple[str, ...] = ()
) -> EndingBroker:
    """All of it sent at once, and brought to its end."""
    broker.connect()
    broker.want(*wants)
    broker.publish(*readings)
    broker.finish()
    return broker
