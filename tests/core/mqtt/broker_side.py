"""The broker's side of the conversation: what our packets say, and packets to answer with.

Both go through the `mqtt5` package, so that our own writer is read by somebody else's reader.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import mqtt5

from gateway.core.effects import ConnectRecorded, RecordConnect, Transmit, UpstreamUp
from gateway.core.events import Output
from gateway.core.mqtt.options import MqttOptions
from gateway.core.mqtt.session import MqttSession
from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from tests.support.mqtt_packets import packets_in

Packet = TypeVar("Packet")
Kind = TypeVar("Kind")


def options(**changed: object) -> MqttOptions:
    values: dict[str, object] = {"gateway_name": "gh", "epoch": 3, "client_id": "tidegate-gh"}
    values["probe_s"] = 0.0
    return MqttOptions(**(values | changed))  # type: ignore[arg-type]


def packets(effects: Iterable[Output]) -> list[object]:
    """What was written to the broker, packet by packet."""
    written = [effect.packet for effect in effects if isinstance(effect, Transmit)]
    return [packet for octets in written for packet in packets_in(octets)]


def only(kind: type[Packet], effects: Iterable[Output]) -> list[Packet]:
    """The packets of one kind."""
    return [packet for packet in packets(effects) if isinstance(packet, kind)]


def news(kind: type[Kind], effects: Iterable[object]) -> list[Kind]:
    """The effects of one kind."""
    return [effect for effect in effects if isinstance(effect, kind)]


def readings(effects: Iterable[Output]) -> list[mqtt5.PublishPacket]:
    """The PUBLISH packets but for our presence."""
    return [each for each in only(mqtt5.PublishPacket, effects) if "tidegate/" not in each.topic]


def tag(packet: mqtt5.PublishPacket) -> dict[str, str]:
    return dict(packet.user_properties)


def connected(session: MqttSession, now: float = 0.0, **connack: Any) -> list[Output]:
    """Open the connection and be accepted; what was written after that."""
    for effect in session.opened(now):
        if isinstance(effect, RecordConnect):
            assert isinstance(effect.then, ConnectRecorded)
            session.connect(effect.then, now)
    packet = mqtt5.ConnAckPacket(**connack)
    effects = session.receive(packet.write(), now)
    assert isinstance(effects[0], UpstreamUp), effects
    return effects


def new_reading(
    payload: bytes = b"21.5", qos: int = 1, *, topic: str = "t", client: str = "s1",
    retain: bool = False, at: float = 1.0
) -> Reading:  # fmt: skip
    return Reading(ClientId(client), topic, payload, qos, retain, 1, 7, at)


def puback(packet_id: int, code: int = 0, reason: str | None = None) -> bytes:
    return mqtt5.PubAckPacket(
        packet_id, reason_code=mqtt5.PubAckReasonCode(code), reason_str=reason
    ).write()


def pubrec(packet_id: int, code: int = 0, reason: str | None = None) -> bytes:
    return mqtt5.PubRecPacket(
        packet_id, reason_code=mqtt5.PubRecReasonCode(code), reason_str=reason
    ).write()


def pubcomp(packet_id: int, code: int = 0) -> bytes:
    return mqtt5.PubCompPacket(packet_id, reason_code=mqtt5.PubCompReasonCode(code)).write()


def suback(packet_id: int, *codes: int) -> bytes:
    return mqtt5.SubAckPacket(packet_id, [mqtt5.SubAckReasonCode(code) for code in codes]).write()


def unsuback(packet_id: int, count: int = 1) -> bytes:
    return mqtt5.UnsubAckPacket(packet_id, [mqtt5.UnsubAckReasonCode(0)] * count).write()


def publication(
    topic: str, payload: bytes = b"on", qos: int = 0, packet_id: int | None = None,
    *, by: Iterable[int] = (), retain: bool = False, dup: bool = False
) -> bytes:  # fmt: skip
    """A message from the broker, sent for the subscriptions with these identifiers."""
    return mqtt5.PublishPacket(
        topic,
        payload,
        qos=mqtt5.QoS(qos),
        packet_id=packet_id,
        subscription_ids=list(by),
        retain=retain,
        duplicate=dup,
    ).write()
