"""What a model makes of a packet of the gateway's, without a network."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.packets.codec import read_packet
from tests.brokers.adapters import AwsIotCore, AzureEventGrid, Emqx, Model
from tests.brokers.broker import Settings
from tests.brokers.models import LimitedBroker
from tests.brokers.tap import Connection, Verdict

QOS_1, QOS_2 = mqtt5.QoS.AT_LEAST_ONCE, mqtt5.QoS.EXACTLY_ONCE


def subscribe(count: int, topic: str = "a", **options: int) -> mqtt5.SubscribePacket:
    filters = [mqtt5.TopicFilter(f"{topic}/{number}", max_qos=QOS_2) for number in range(count)]
    return mqtt5.SubscribePacket(1, filters, subscription_id=options.get("identifier"))


def publish(topic: str, payload: bytes = b"x", qos: mqtt5.QoS = QOS_1) -> mqtt5.PublishPacket:
    return mqtt5.PublishPacket(topic, payload, qos=qos, packet_id=1)


Sent = mqtt5.SubscribePacket | mqtt5.PublishPacket


def verdict(kind: type[Model], packet: Sent) -> Verdict:
    model = LimitedBroker(kind.limits, Settings())
    return model.up(packet, packet.write(), Connection())


def ends_with(found: Verdict) -> int | None:
    """The code of the DISCONNECT that it ends with; None without one."""
    assert found.closes
    assert not found.forward
    if not found.answer:
        return None
    packet, *_ = read_packet(memoryview(found.answer))
    assert isinstance(packet, mqtt5.DisconnectPacket)
    return int(packet.reason_code)


@pytest.mark.parametrize(
    ("model", "packet", "code"),
    [
        (AwsIotCore, subscribe(9), None),
        (AwsIotCore, subscribe(1, identifier=2), 0xA1),
        (AwsIotCore, publish("a", qos=QOS_2), 0x9B),
        (AwsIotCore, publish("a/b/c/d/e/f/g/h/i"), None),
        (AwsIotCore, publish("a" * 257), None),
        (AwsIotCore, publish("denied/a"), None),
        (AwsIotCore, publish("a", b"x" * 149_504), 0x95),
        (AzureEventGrid, subscribe(11), None),
        (Emqx, publish("denied/a"), 0x87),
        (Emqx, subscribe(1, "denied"), 0x87),
    ],
)
def test_what_a_broker_does_not_take_ends_the_connection(
    model: type[Model], packet: Sent, code: int | None
) -> None:
    assert ends_with(verdict(model, packet)) == code


@pytest.mark.parametrize(
    ("model", "packet"),
    [
        (AwsIotCore, publish("a/b/c/d/e/f/g/h")),
        (AwsIotCore, publish("a" * 256)),
        (AwsIotCore, publish("denied")),
        (AzureEventGrid, publish("denied/a")),  # mosquitto refuses it, with PUBACK
        (Emqx, subscribe(100)),
    ],
)
def test_what_it_takes_is_passed_on(model: type[Model], packet: Sent) -> None:
    assert verdict(model, packet) == Verdict(packet.write())


def test_a_subscription_above_maximum_qos_is_granted_at_less() -> None:
    found = verdict(AwsIotCore, subscribe(8))
    assert not found.closes
    packet, *_ = read_packet(memoryview(found.forward))
    assert isinstance(packet, mqtt5.SubscribePacket)
    assert {int(each.max_qos) for each in packet.topic_filters} == {1}


def test_its_limits_are_in_its_connack() -> None:
    model = LimitedBroker(AwsIotCore.limits, Settings())
    plain = mqtt5.ConnAckPacket(session_present=True, topic_alias_max=10)
    connack, *_ = read_packet(memoryview(model.down(plain, plain.write())))
    assert isinstance(connack, mqtt5.ConnAckPacket)
    assert connack.session_present
    assert (connack.receive_max, connack.max_packet_size) == (100, 149_504)
    assert (int(connack.max_qos), connack.subscription_id_available) == (1, False)
