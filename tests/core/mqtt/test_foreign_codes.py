"""Reason codes that MQTT 5 does not list: below 0x80 success, else a failure with its number."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.effects import DropUpstream, Transmit, UpstreamRefused
from gateway.core.events import (
    FilterRefused,
    Output,
    ReadingRefused,
    ReadingsAcknowledged,
    SubscriptionGranted,
)
from gateway.core.mqtt.session import MqttSession, Phase
from gateway.core.values import Reading
from tests.core.mqtt.broker_side import connected, new_reading, only, options


def session_up() -> MqttSession:
    session = MqttSession(options())
    connected(session)
    return session


def session_with(reading: Reading) -> MqttSession:
    session = session_up()
    session.publisher.publish(reading)
    return session


def acknowledgement(kind: int, packet_id: int, code: int) -> bytes:
    return bytes((kind, 3)) + packet_id.to_bytes(2, "big") + bytes((code,))


@pytest.mark.parametrize("code", [0x01, 0x02, 0x7F])
def test_below_0x80_every_code_acknowledges(code: int) -> None:
    once = new_reading(qos=1)
    session = session_with(once)
    outputs = session.receive(acknowledgement(0x40, once.packet_id, code), 1.0)
    assert outputs == [ReadingsAcknowledged([once])]
    exactly = new_reading(qos=2)
    session = session_with(exactly)
    (release,) = session.receive(acknowledgement(0x50, exactly.packet_id, code), 1.0)
    assert isinstance(release, Transmit)
    assert release.packet[0] == 0x62
    outputs = session.receive(acknowledgement(0x70, exactly.packet_id, code), 1.0)
    assert outputs == [ReadingsAcknowledged([exactly])]


@pytest.mark.parametrize("kind", [0x40, 0x50])
def test_above_it_every_code_refuses_with_its_number(kind: int) -> None:
    reading = new_reading(qos=1 if kind == 0x40 else 2)
    session = session_with(reading)
    (refused,) = session.receive(acknowledgement(kind, reading.packet_id, 0xF3), 1.0)
    assert isinstance(refused, ReadingRefused)
    assert refused.reading is reading
    assert "0xf3" in refused.detail


def test_pubcomp_with_a_failure_ends_the_exchange_as_any_other() -> None:
    reading = new_reading(qos=2)
    session = session_with(reading)
    session.receive(acknowledgement(0x50, reading.packet_id, 0), 1.0)
    outputs = session.receive(acknowledgement(0x70, reading.packet_id, 0xF3), 1.0)
    assert outputs == [ReadingsAcknowledged([reading])]


def suback_of(code: int) -> list[Output]:
    """What comes of this code for each SUBSCRIBE for a filter."""
    session = session_up()
    session.subscriptions.want("a/b", 1, retained=True)
    outputs: list[Output] = []
    for packet in only(mqtt5.SubscribePacket, session.subscriptions.advance()):
        packet_id = packet.packet_id.to_bytes(2, "big")
        outputs += session.receive(b"\x90\x04" + packet_id + bytes((0, code)), 1.0)
    return outputs


def test_a_subscription_is_granted_by_every_code_below_0x80() -> None:
    for code in (3, 0x10, 0x7F):
        assert SubscriptionGranted("a/b") in suback_of(code), hex(code)
    refused = [each for each in suback_of(0xF3) if isinstance(each, FilterRefused)]
    assert len(refused) == 1
    assert "0xf3" in refused[0].reason


def test_a_connection_is_refused_by_a_code_that_is_not_known() -> None:
    session = MqttSession(options())
    session.opened(0.0)
    refused, dropped = session.receive(b"\x20\x03\x00\xf1\x00", 0.1)
    assert isinstance(refused, UpstreamRefused)
    assert "CONNACK 0xf1" in refused.reason
    assert isinstance(dropped, DropUpstream)
    session = session_up()
    refused, dropped = session.receive(b"\xe0\x01\xf5", 1.0)
    assert isinstance(refused, UpstreamRefused)
    assert "DISCONNECT 0xf5" in refused.reason


@pytest.mark.parametrize("code", [0, 1, 5])
def test_a_broker_of_mqtt_3_is_named_as_that(code: int) -> None:
    session = MqttSession(options())
    session.opened(0.0)
    (dropped,) = session.receive(bytes((0x20, 2, 0, code)), 0.1)
    assert isinstance(dropped, DropUpstream)
    assert "does not speak MQTT 5" in dropped.reason
    assert f"code {code})" in dropped.reason
    assert session.phase is Phase.CLOSED


def test_the_server_that_it_names_is_reported() -> None:
    codes = mqtt5.ConnAckReasonCode
    for code in (codes.USE_ANOTHER_SERVER, codes.SERVER_MOVED):
        session = MqttSession(options())
        session.opened(0.0)
        packet = mqtt5.ConnAckPacket(reason_code=code, server_reference="other:1883").write()
        refused, _ = session.receive(packet, 0.1)
        assert isinstance(refused, UpstreamRefused)
        assert "'other:1883'" in refused.reason
