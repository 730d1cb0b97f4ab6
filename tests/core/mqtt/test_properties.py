"""Properties that MQTT 5 does not allow cost neither the packet nor the connection."""

from __future__ import annotations

import warnings

import mqtt5
import pytest

from gateway.core.effects import (
    DropUpstream,
    PropertiesIgnored,
    Transmit,
    UpstreamRefused,
    UpstreamUp,
)
from gateway.core.events import ReadingRefused, ReadingsAcknowledged
from gateway.core.mqtt.session import MqttSession, Phase
from gateway.core.values import Publication
from tests.core.mqtt.broker_side import connected, new_reading, news, only, options
from tests.support.golden_properties import MALFORMED, ROWS, Row

# What the codec leaves behind when its native code panics; the outcome is what is tested.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

rows = pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
malformed = pytest.mark.parametrize("packet", MALFORMED.values(), ids=MALFORMED)


@rows
def test_the_connection_lives(row: Row) -> None:
    session = MqttSession(options())
    if row.kind == "CONNACK":
        session.opened(0.0)
        effects = session.receive(row.packet, 0.1)
        assert news(UpstreamUp, effects)
    else:
        connected(session)
        effects = session.receive(row.packet, 1.0)
    drops, is_end = news(DropUpstream, effects), row.kind == "DISCONNECT"
    assert len(drops) == is_end
    assert session.phase is (Phase.CLOSED if is_end else Phase.UP)
    expected = [PropertiesIgnored(row.kind, row.ignored)] if row.ignored else []
    assert news(PropertiesIgnored, effects) == expected


@malformed
def test_a_length_that_does_not_fit_ends_the_connection(packet: str) -> None:
    data = bytes.fromhex(packet)
    session = MqttSession(options())
    if data[0] == 0x20:
        session.opened(0.0)
    else:
        connected(session)
    (drop,) = session.receive(data, 1.0)
    assert isinstance(drop, DropUpstream)
    assert "what it may not send" in drop.reason


def session_with(qos: int) -> MqttSession:
    session = MqttSession(options())
    connected(session)
    session.publisher.publish(new_reading(qos=qos))
    return session


def test_an_acknowledgement_acknowledges_all_the_same() -> None:
    session = session_with(1)
    effects = session.receive(bytes.fromhex("40 08 0001 00 04 1c 0001 61"), 1.0)
    assert len(news(ReadingsAcknowledged, effects)) == 1


def test_a_refusal_gives_the_reason_as_far_as_it_can_be_read() -> None:
    session = session_with(1)
    (refused,) = news(
        ReadingRefused, session.receive(bytes.fromhex("40 09 0001 87 05 1f 0002 6eff"), 1.0)
    )
    assert '("n?")' in refused.detail


def test_a_code_and_a_property_that_are_not_known_may_come_together() -> None:
    session = session_with(1)
    effects = session.receive(bytes.fromhex("40 06 0001 01 02 7f 00"), 1.0)
    assert len(news(ReadingsAcknowledged, effects)) == 1
    assert news(PropertiesIgnored, effects) == [PropertiesIgnored("PUBACK", "0x7f is not known")]


def test_the_server_that_is_named_is_reported_beside_what_is_ignored() -> None:
    session = MqttSession(options())
    session.opened(0.0)
    effects = session.receive(bytes.fromhex("20 0a 00 9c 07 1c 0001 61 23 0001"), 0.1)
    (refused,) = news(UpstreamRefused, effects)
    assert "naming the server 'a'" in refused.reason


def up_with(connack: str) -> MqttSession:
    session = MqttSession(options())
    session.opened(0.0)
    assert news(UpstreamUp, session.receive(bytes.fromhex(connack), 0.1))
    return session


@pytest.mark.parametrize(
    ("connack", "in_flight"), [("20 06 0000 03 21 0000", 3), ("20 09 0000 06 21 0001 21 0002", 1)]
)
def test_a_receive_maximum_of_0_is_none_and_of_two_the_first_counts(
    connack: str, in_flight: int
) -> None:
    session = up_with(connack)
    written = [session.publisher.publish(new_reading(client=f"s{number}")) for number in range(3)]
    assert sum(each is not None for each in written) == in_flight


def test_a_maximum_packet_size_of_0_is_none() -> None:
    session = up_with("20 08 0000 05 27 00000000")
    assert isinstance(session.publisher.publish(new_reading(b"x" * 5000)), Transmit)


def test_a_topic_alias_beside_a_topic_says_nothing_and_alone_too_little() -> None:
    session = MqttSession(options())
    connected(session)
    (message,) = session.receive(bytes.fromhex("30 08 0001 61 03 23 0001 78"), 1.0)
    assert isinstance(message, Publication)
    assert (message.message.topic, message.message.payload) == ("a", b"x")
    (drop,) = session.receive(bytes.fromhex("30 07 0000 03 23 0001 78"), 1.0)
    assert isinstance(drop, DropUpstream)
    assert "topic alias" in drop.reason


def test_a_message_at_qos_1_is_taken_and_can_be_acknowledged() -> None:
    session = MqttSession(options())
    connected(session)
    effects = session.receive(bytes.fromhex("32 0b 0001 61 0007 04 1f 0001 72 78"), 1.0)
    (message,) = news(Publication, effects)
    assert only(mqtt5.PubAckPacket, session.acknowledge(message))[0].packet_id == 7


def test_it_is_logged_once_on_each_connection() -> None:
    session = MqttSession(options())
    connected(session)
    odd = bytes.fromhex("40 06 0001 00 02 7f 00")
    assert len(news(PropertiesIgnored, session.receive(odd + odd, 1.0))) == 1
    assert news(PropertiesIgnored, session.receive(odd, 1.0)) == []
    session.closed(0.0, by_broker=False)
    connected(session)
    assert len(news(PropertiesIgnored, session.receive(odd, 1.0))) == 1


def test_text_after_the_first_that_could_not_be_read_is_found_before_the_codec_panics() -> None:
    session = MqttSession(options())
    connected(session)
    odd = bytes.fromhex("30 0c 0001 61 07 26 0001 61 0001 ff 78")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.receive(bytes.fromhex("30 08 0001 61 03 1f 0000 78"), 1.0)
        (message,) = session.receive(odd, 1.0)
    assert isinstance(message, Publication)
