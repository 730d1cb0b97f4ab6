"""An engine on the bench: sensors by address on one side, a broker that answers on the other.

Frames go in and come out as values, through their octets; packets through the `mqtt5` package. The
broker grants what is asked and settles what is published, unless it is told to hold its answers.
Time stands still until `at` is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import mqtt5

from gateway.core.downlink.pending_subscriptions import BROKER_PATIENCE_S
from gateway.core.effects import Effect, Send, Transmit
from gateway.core.engine import Engine, EngineOptions
from gateway.core.events import Output
from gateway.core.mqtt.options import MqttOptions
from gateway.frames import (
    Connack,
    Connect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Regack,
    Register,
    Suback,
    Subscribe,
    TopicIdType,
    decode,
    encode,
)
from tests.support.mqtt_packets import packets_in

UPSTREAM = MqttOptions("gh", 3, "tidegate-gh", probe_s=0.0)
EPOCH = 3 << 16

Kind = TypeVar("Kind")


class Bench:
    def __init__(self, options: EngineOptions | None = None, *, connected: bool = True) -> None:
        self.engine = Engine(options or EngineOptions(UPSTREAM))
        self.at = 0.0
        self.news: list[Effect] = []  # what was neither frame nor packet
        self.heard: list[tuple[bytes, Frame]] = []  # by the sensors, with their addresses
        self.packets: list[Any] = []  # at the broker, and not yet looked at
        self.identifiers: dict[str, int] = {}  # of the subscriptions that the broker has
        self.subscribed: set[str] = set()  # what the broker was told, in order
        self._named_by: dict[str, int] = {}  # which SUBSCRIBE came last for a filter
        self.holds = False  # whether the broker keeps its answers to itself, but those to pings
        self.holds_pings = False
        self.refuses: set[str] = set()  # filters it does not grant
        if connected:
            self.connect_broker()

    # The broker

    def connect_broker(self, **connack: Any) -> None:
        self.take(self.engine.opened(self.at))
        self.from_broker(mqtt5.ConnAckPacket(**connack).write())

    def lose_broker(self) -> None:
        """By the network's fault."""
        self.take(self.engine.closed(self.at, by_broker=False))

    def broker_ends(self) -> None:
        """It ends the connection, perhaps for something that was sent."""
        self.take(self.engine.closed(self.at, by_broker=True))

    def lose_broker_for_long(self) -> None:
        """For as long as those that subscribe wait for it."""
        self.lose_broker()
        self.wake(self.at + BROKER_PATIENCE_S)

    def from_broker(self, octets: bytes) -> None:
        self.take(self.engine.receive_upstream(octets, self.at))

    def publishes(
        self, topic: str, payload: bytes = b"on", qos: int = 0, *, retain: bool = False,
        by: str | None = None, is_replay: bool = False,
    ) -> None:  # fmt: skip
        """The broker sends a message, for the subscription `by` if it says so."""
        identifiers = [] if by is None else [self.identifiers[by] | is_replay]
        packet = mqtt5.PublishPacket(
            topic, payload, qos=mqtt5.QoS(qos), packet_id=7 if qos else None, retain=retain,
            subscription_ids=identifiers,
        )  # fmt: skip
        self.from_broker(packet.write())

    def answer(self, packet: Any) -> None:
        if isinstance(packet, mqtt5.SubscribePacket):
            named = {each.pattern for each in packet.topic_filters}
            self.subscribed -= {
                pattern
                for pattern in named & self.refuses
                if self._named_by[pattern] == packet.packet_id  # else it was asked for again
            }
            codes = [
                mqtt5.SubAckReasonCode(0x87 if each.pattern in self.refuses else int(each.max_qos))
                for each in packet.topic_filters
            ]
            self.from_broker(mqtt5.SubAckPacket(packet.packet_id, codes).write())
        elif isinstance(packet, mqtt5.UnsubscribePacket):
            codes_given_up = [mqtt5.UnsubAckReasonCode(0)] * len(packet.patterns)
            self.from_broker(mqtt5.UnsubAckPacket(packet.packet_id, codes_given_up).write())
        elif isinstance(packet, mqtt5.PublishPacket) and int(packet.qos) == 1:
            self.from_broker(mqtt5.PubAckPacket(packet.packet_id or 0).write())
        elif isinstance(packet, mqtt5.PublishPacket) and int(packet.qos) == 2:
            self.from_broker(mqtt5.PubRecPacket(packet.packet_id or 0).write())
        elif isinstance(packet, mqtt5.PubRelPacket):
            self.from_broker(mqtt5.PubCompPacket(packet.packet_id).write())

    def release(self) -> None:
        """Give the answers that were held."""
        self.holds = False
        for packet in self.seen():
            self.answer(packet)

    def seen(self) -> list[Any]:
        """The packets that came since the last look."""
        packets, self.packets = self.packets, []
        return packets

    def seen_of(self, kind: type[Kind]) -> list[Kind]:
        return [packet for packet in self.seen() if isinstance(packet, kind)]

    # The sensors

    def say(self, address: bytes, *frames: Frame) -> list[Frame]:
        """What one sensor says, and what it hears at once."""
        return self.say_octets(address, *map(encode, frames))

    def say_octets(self, address: bytes, *datagrams: bytes) -> list[Frame]:
        self.hear(address)
        pairs = [(address, datagram) for datagram in datagrams]
        self.take(self.engine.receive(0, pairs, self.at))
        return self.hear(address)

    def hear(self, address: bytes) -> list[Frame]:
        """What a sensor has heard since its last look."""
        frames = [frame for given, frame in self.heard if given == address]
        self.heard = [(given, frame) for given, frame in self.heard if given != address]
        return frames

    def hear_all(self, address: bytes) -> list[tuple[bytes, int, bool]]:
        """Payload, QoS and flag of all messages for a client that accepts and acknowledges all."""
        heard: list[tuple[bytes, int, bool]] = []
        frames = self.hear(address)
        while frames:
            frame = frames.pop(0)
            if isinstance(frame, Register):
                frames += self.say(address, Regack(frame.topic_id, frame.message_id, 0))
            elif isinstance(frame, Publish):
                heard += published([frame])
                if frame.qos == 1:
                    frames += self.say(address, Puback(frame.topic_id, frame.message_id, 0))
        return heard

    def join(
        self, name: bytes, *, clean: bool = True, keep_alive_s: int = 60, at: bytes | None = None
    ) -> bytes:
        """Connect a client, at an address that is its name if none is given, and let it show that
        it is there.
        """
        address = name if at is None else at
        frame = Connect(name, keep_alive_s, clean_session=clean)
        assert Connack(0) in self.say(address, frame)
        assert Pingresp() in self.say(address, Pingreq())
        return address

    def register(self, address: bytes, name: bytes) -> int:
        (regack,) = self.say(address, Register(0, 1, name))
        assert isinstance(regack, Regack)
        return regack.topic_id

    def subscribe(
        self, address: bytes, name: bytes, qos: int = 0, *, message_id: int = 1
    ) -> list[Frame]:
        return self.say(address, Subscribe(message_id, name, qos))

    def wake(self, now: float) -> None:
        """Time passes, with every alarm on the way, as the shell has it."""
        while self.engine.wake_at() <= now:
            self.at = max(self.at, self.engine.wake_at())
            self.take(self.engine.handle_time(self.at))
        self.at = now

    # Effects

    def ask(self, outputs: Sequence[Output]) -> list[Effect]:
        """What came of a request of the operator."""
        effects = self.engine.asked(outputs, self.at)
        self.take(effects)
        return effects

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.heard.append((effect.peer.address, decode(encode(effect.frame))))
            elif isinstance(effect, Transmit):
                for packet in packets_in(effect.packet):
                    self._arrive(packet)
            else:
                self.news.append(effect)

    def _arrive(self, packet: Any) -> None:
        self.packets.append(packet)
        if isinstance(packet, mqtt5.SubscribePacket):
            for each in packet.topic_filters:
                self.subscribed.add(each.pattern)
                self._named_by[each.pattern] = packet.packet_id
                self.identifiers[each.pattern] = (packet.subscription_id or 0) & ~1
        elif isinstance(packet, mqtt5.UnsubscribePacket):
            self.subscribed.difference_update(packet.patterns)
        is_careful = self.engine.upstream.caution.is_on
        if isinstance(packet, mqtt5.PingReqPacket) and is_careful and not self.holds_pings:
            # What is to go alone waits for the answer; other pings tests answer themselves.
            self.from_broker(mqtt5.PingRespPacket().write())
        elif not self.holds:
            self.answer(packet)

    def told(self, kind: type[Kind]) -> list[Kind]:
        """The news of one kind, once."""
        news, self.news = self.news, []
        found: list[Kind] = []
        for effect in news:
            if isinstance(effect, kind):
                found.append(effect)
            else:
                self.news.append(effect)
        return found


def published(frames: list[Frame]) -> list[tuple[bytes, int, bool]]:
    """Payload, QoS and retain flag of the PUBLISH frames."""
    return [(each.payload, each.qos, each.retain) for each in frames if isinstance(each, Publish)]


def granted_id(frames: list[Frame]) -> int:
    """The topic id of the one SUBACK, which accepts."""
    (suback,) = [each for each in frames if isinstance(each, Suback)]
    assert suback.return_code == 0
    return suback.topic_id


def short(
    payload: bytes, qos: int, message_id: int, *, retain: bool = False, dup: bool = False
) -> Publish:
    """A reading on the short topic "tp"."""
    return Publish(
        int.from_bytes(b"tp", "big"), message_id, payload, qos, retain, dup,
        topic_id_type=TopicIdType.SHORT,
    )  # fmt: skip
