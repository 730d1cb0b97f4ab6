"""How the session introduces itself, what it makes of the answer, and how it sends DISCONNECT."""

from __future__ import annotations

from math import inf

import mqtt5
import pytest

from gateway.core.effects import DropUpstream, Transmit, UpstreamRefused, UpstreamUp
from gateway.core.mqtt.reason_codes import spoken
from gateway.core.mqtt.session import MqttSession, Phase
from tests.core.mqtt.broker_side import (
    connected,
    new_reading,
    news,
    only,
    options,
    packets,
    readings,
)

Code = mqtt5.ConnAckReasonCode


def connect_packet(session: MqttSession) -> mqtt5.ConnectPacket:
    (packet,) = packets(session.opened(0.0))
    assert isinstance(packet, mqtt5.ConnectPacket)
    return packet


def refused_with(session: MqttSession, code: Code, reason: str | None = None) -> list[object]:
    session.opened(0.0)
    packet = mqtt5.ConnAckPacket(reason_code=code, reason_str=reason)
    return list(session.receive(packet.write(), 0.0))


def test_connect_asks_for_the_old_session_and_for_it_to_be_kept() -> None:
    packet = connect_packet(
        MqttSession(options(username="gw", password=b"\x00secret", session_expiry_s=3600))
    )
    assert packet.clean_start is False
    assert packet.session_expiry_interval == 3600
    assert (packet.client_id, packet.username) == ("tidegate-gh", "gw")
    assert packet.password == b"\x00secret"
    assert (packet.keep_alive, packet.receive_max) == (30, 1000)
    assert packet.max_packet_size == 1 << 20
    assert packet.topic_alias_max == 0


def test_another_password_is_told_with_the_next_connection() -> None:
    session = MqttSession(options(username="gw", password=b"old"))
    connected(session)
    session.use("gw-2", b"new")
    session.closed(0.0, by_broker=False)
    packet = connect_packet(session)
    assert (packet.client_id, packet.username, packet.password) == ("tidegate-gh", "gw-2", b"new")


def test_the_will_says_that_the_gateway_is_offline() -> None:
    will = connect_packet(MqttSession(options(topic_prefix="site/"))).will
    assert will is not None
    assert (will.topic, will.payload) == ("site/tidegate/gh/state", b"offline")
    assert (int(will.qos), will.retain, will.will_delay_interval) == (1, True, 10)


@pytest.mark.parametrize("delay_s", [0, 3600])
def test_the_broker_waits_with_the_will_as_configured(delay_s: int) -> None:
    will = connect_packet(MqttSession(options(will_delay_s=delay_s))).will
    assert will is not None
    assert will.will_delay_interval == delay_s


def test_once_accepted_the_gateway_is_online() -> None:
    up, *_ = effects = connected(MqttSession(options()), session_present=True)
    assert up == UpstreamUp(session_present=True, resent=0)
    (presence,) = packets(effects)
    assert isinstance(presence, mqtt5.PublishPacket)
    assert (presence.topic, presence.payload) == ("tidegate/gh/state", b"online")
    assert (int(presence.qos), presence.retain) == (0, True)
    assert presence.user_properties == [("gw", "gh")]


def test_a_connection_begins_with_connack_octet_by_octet() -> None:
    session = MqttSession(options())
    session.opened(0.0)
    octets = mqtt5.ConnAckPacket(receive_max=5).write()
    for octet in octets[:-1]:
        assert session.receive(bytes([octet]), 0.0) == []
    assert news(UpstreamUp, session.receive(octets[-1:], 0.0))


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (Code.BAD_USER_NAME_OR_PASSWORD, "check upstream.username and upstream.password_file"),
        (Code.NOT_AUTHORIZED, "check upstream.username and upstream.password_file"),
        (Code.CLIENT_ID_NOT_VALID, "set upstream.client_id"),
        (Code.UNSUPPORTED_PROTOCOL_VERSION, "use a broker that does"),
        (Code.SERVER_BUSY, "it will be tried again"),
        (Code.USE_ANOTHER_SERVER, "set upstream.url"),
    ],
)
def test_a_refusal_says_what_to_do_and_gives_the_connection_up(code: Code, advice: str) -> None:
    session = MqttSession(options())
    refusal, drop = refused_with(session, code, "go away")
    assert isinstance(refusal, UpstreamRefused)
    assert advice in refusal.reason
    assert f'CONNACK {int(code):#04x} ("go away")' in refusal.reason
    assert drop == DropUpstream(refusal.reason)
    assert (session.phase, session.wake_at()) == (Phase.CLOSED, inf)


def test_an_unknown_reason_code_is_said_as_a_number() -> None:
    assert spoken("CONNACK", 0xEE, None) == (
        "the broker answered CONNACK 0xee: see MQTT 5, 2.4 for the reason code"
    )


def test_a_broker_that_takes_no_will_at_qos_1_gets_one_at_qos_0() -> None:
    session = MqttSession(options())
    refused_with(session, Code.QUALITY_NOT_SUPPORTED)
    will = connect_packet(session).will
    assert will is not None
    assert (int(will.qos), will.retain) == (0, True)


def test_a_broker_that_retains_nothing_gets_presence_without_the_flag() -> None:
    session = MqttSession(options())
    refused_with(session, Code.RETAIN_NOT_SUPPORTED)
    will = connect_packet(session).will
    assert will is not None
    assert (int(will.qos), will.retain) == (1, False)
    (presence,) = only(mqtt5.PublishPacket, connected(session, retain_available=False))
    assert not presence.retain


def test_a_broker_that_retains_nothing_gets_readings_without_the_flag() -> None:
    session = MqttSession(options())
    connected(session, retain_available=False)
    reading = new_reading(retain=True)
    sent = session.publisher.publish(reading)
    assert isinstance(sent, Transmit)
    assert not readings([sent])[0].retain
    session.closed(0.0, by_broker=False)
    (again,) = readings(connected(session, session_present=True, retain_available=True))
    assert again.retain, "the sensor asked for it, and this broker can"


def test_a_broker_that_disconnects_says_why() -> None:
    session = MqttSession(options())
    connected(session)
    packet = mqtt5.DisconnectPacket(reason_code=mqtt5.DisconnectReasonCode.SESSION_TAKEN_OVER)
    refusal, drop = session.receive(packet.write(), 1.0)
    assert isinstance(refusal, UpstreamRefused)
    assert "give each gateway a gateway.name of its own" in refusal.reason
    assert drop == DropUpstream(refusal.reason)
    assert session.phase is Phase.CLOSED


def test_goodbye_is_presence_and_disconnect() -> None:
    session = MqttSession(options())
    assert session.stop() == []
    session.opened(0.0)
    assert session.stop() == [], "nobody has accepted us yet"
    connected(session)
    presence, farewell = packets(session.stop())
    assert isinstance(presence, mqtt5.PublishPacket)
    assert (presence.payload, presence.retain) == (b"offline", True)
    assert isinstance(farewell, mqtt5.DisconnectPacket)
    assert int(farewell.reason_code) == 0, "a normal one, which discards the will"
