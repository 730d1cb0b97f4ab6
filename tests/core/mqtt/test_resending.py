"""What goes out again after a break: by what the broker still knows, and how far we trust it."""

from __future__ import annotations

from typing import Any

import mqtt5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.drop_reasons import Reason
from gateway.core.effects import UpstreamUp
from gateway.core.events import Output, ReadingRefused, ReadingsAcknowledged
from gateway.core.mqtt.session import MqttSession
from gateway.core.values import Reading
from tests.core.mqtt.broker_side import (
    connected,
    new_reading,
    news,
    options,
    packets,
    puback,
    pubcomp,
    pubrec,
    readings,
    tag,
)


def session_up(*, trust_session: bool = False, **connack: Any) -> MqttSession:
    session = MqttSession(options(trust_session=trust_session))
    connected(session, **connack)
    return session


def at_every_stage(session: MqttSession) -> list[Reading]:
    """A QoS 1 reading, a QoS 2 one without PUBREC and one with, all on the wire."""
    readings = [new_reading(b"one", 1), new_reading(b"two", 2), new_reading(b"released", 2)]
    for reading in readings:
        session.publisher.publish(reading)
    session.receive(pubrec(3), 1.0)
    return readings


def described(effects: list[Output]) -> list[tuple[str, int | None, bool]]:
    """Payload (or PUBREL), packet id and DUP of what went out again."""
    again: list[tuple[str, int | None, bool]] = []
    for packet in packets(effects):
        if isinstance(packet, mqtt5.PubRelPacket):
            again.append(("PUBREL", packet.packet_id, False))
        elif isinstance(packet, mqtt5.PublishPacket) and packet.payload != b"online":
            again.append((packet.payload.decode(), packet.packet_id, packet.duplicate))
    return again


@pytest.mark.guarantee("1")
@pytest.mark.parametrize("trust_session", [False, True])
def test_with_the_session_gone_all_is_published_as_new_and_nothing_released(
    trust_session: bool,
) -> None:
    session = session_up(trust_session=trust_session)
    at_every_stage(session)
    session.closed(0.0, by_broker=False)
    effects = connected(session, session_present=False)
    assert described(effects) == [("one", 1, False), ("two", 2, False), ("released", 3, False)]
    assert news(UpstreamUp, effects) == [UpstreamUp(session_present=False, resent=3)]


def test_with_the_session_there_but_not_trusted_all_is_published_again() -> None:
    session = session_up(trust_session=False)
    at_every_stage(session)
    session.closed(0.0, by_broker=False)
    effects = connected(session, session_present=True)
    assert described(effects) == [("one", 1, True), ("two", 2, True), ("released", 3, True)]
    assert news(UpstreamUp, effects) == [UpstreamUp(session_present=True, resent=3)]


def test_with_the_session_trusted_what_was_released_is_released_again() -> None:
    session = session_up(trust_session=True)
    at_every_stage(session)
    session.closed(0.0, by_broker=False)
    effects = connected(session, session_present=True)
    assert described(effects) == [("one", 1, True), ("two", 2, True), ("PUBREL", 3, False)]


def test_a_session_that_may_be_another_is_not_trusted_with_what_was_released() -> None:
    """The broker lost its sessions and began a new one for a CONNECT whose answer never came."""
    session = session_up(trust_session=True)
    at_every_stage(session)
    session.closed(0.0, by_broker=False)
    session.opened(2.0)
    session.closed(0.0, by_broker=False)
    effects = connected(session, session_present=True)
    assert described(effects) == [("one", 1, True), ("two", 2, True), ("released", 3, True)]


@pytest.mark.parametrize("session_present", [False, True])
@pytest.mark.parametrize("trust_session", [False, True])
def test_what_went_out_again_is_settled_as_ever(trust_session: bool, session_present: bool) -> None:
    session = session_up(trust_session=trust_session)
    readings = at_every_stage(session)
    session.closed(0.0, by_broker=False)
    connected(session, session_present=session_present)
    octets = puback(1) + pubrec(2) + pubcomp(2) + pubrec(3) + pubcomp(3)
    acknowledged = news(ReadingsAcknowledged, session.receive(octets, 2.0))
    assert [reading for each in acknowledged for reading in each.readings] == readings
    assert len(session.publisher.in_flight) == 0
    assert session.publisher.in_flight._qos2 == 0


@pytest.mark.guarantee("2")
@pytest.mark.parametrize("session_present", [False, True])
def test_the_delivery_tag_is_the_same_each_time(session_present: bool) -> None:
    session = MqttSession(options())
    session.publisher.unix_ms_at_zero = 1_000_000.0
    effects = connected(session)
    for payload in (b"a", b"b"):
        session.publisher.publish(new_reading(payload, 2, at=5.0))
    first = readings(session.publisher.pump(0.0) + effects)
    tags = []
    for _ in range(3):
        session.closed(0.0, by_broker=False)
        session.publisher.unix_ms_at_zero += 86_400_000.0  # the clock was set meanwhile
        again = readings(connected(session, session_present=session_present))
        tags.append([(packet.payload, tag(packet)) for packet in again])
    assert first == []
    assert tags[0] == tags[1] == tags[2]
    assert [each["ts"] for _, each in tags[0]] == ["1005000", "1005000"]
    assert [each["seq"] for _, each in tags[0]] == ["0", "1"]


def test_a_reading_that_waited_for_the_broker_gets_its_time_from_the_clock_as_it_is_then() -> None:
    session = MqttSession(options())
    session.publisher.publish(new_reading(at=5.0))
    session.publisher.unix_ms_at_zero = 1_000_000.0  # set while the reading waited
    (packet,) = readings(connected(session))
    assert tag(packet)["ts"] == "1005000"


@pytest.mark.guarantee("3")
def test_readings_taken_while_the_broker_was_away_follow_those_that_were_on_the_wire() -> None:
    session = session_up(receive_max=1)
    for payload in (b"0", b"1"):
        session.publisher.publish(new_reading(payload))
    session.closed(0.0, by_broker=False)
    session.publisher.publish(new_reading(b"2"))
    effects = connected(session, receive_max=10)
    assert [payload for payload, _, _ in described(effects)] == ["0", "1", "2"]
    assert [tag(packet)["seq"] for packet in readings(effects)] == ["0", "1", "2"]


@pytest.mark.guarantee("6")
@pytest.mark.parametrize("session_present", [False, True])
@pytest.mark.parametrize("trust_session", [False, True])
def test_a_smaller_receive_maximum_than_before_is_obeyed(
    trust_session: bool, session_present: bool
) -> None:
    session = session_up(trust_session=trust_session)
    at_every_stage(session)
    session.closed(0.0, by_broker=False)
    effects = connected(session, session_present=session_present, receive_max=2)
    assert len(described(effects)) == len(session.publisher.in_flight) == 2
    sent = described(effects)
    for _ in range(3):
        octets = puback(1) + pubrec(2) + pubcomp(2) + pubrec(3) + pubcomp(3)
        sent += described(session.receive(octets, 2.0))
        assert len(session.publisher.in_flight) <= 2
    assert len(session.publisher.in_flight) == 0
    was_released = {"PUBREL"} if trust_session and session_present else {"released", "PUBREL"}
    assert {name for name, _, _ in sent} == {"one", "two"} | was_released


def test_what_was_released_goes_on_beyond_a_smaller_receive_maximum_and_nothing_else() -> None:
    """A PUBREL needs no place in the window, and cannot be taken back (MQTT 5, 4.9)."""
    session = session_up(trust_session=True, receive_max=2)
    for payload in (b"one", b"two", b"three"):
        session.publisher.publish(new_reading(payload, 2))
    session.receive(pubrec(1) + pubrec(2), 1.0)
    session.closed(0.0, by_broker=False)
    effects = connected(session, session_present=True, receive_max=1)
    assert described(effects) == [("PUBREL", 1, False), ("PUBREL", 2, False)]
    assert described(session.receive(pubcomp(1), 2.0)) == []
    assert described(session.receive(pubcomp(2), 2.0)) == [("three", 3, False)]


def test_a_broker_that_takes_less_than_before_gets_everything_anew() -> None:
    session = session_up(trust_session=True)
    at_every_stage(session)
    session.closed(0.0, by_broker=False)
    effects = connected(session, session_present=True, max_qos=mqtt5.QoS(1))
    assert described(effects) == [("one", 1, False), ("two", 2, False), ("released", 3, False)]
    assert {int(packet.qos) for packet in readings(effects)} == {1}
    session.closed(0.0, by_broker=False)
    effects = connected(session, session_present=False, max_qos=mqtt5.QoS(2))
    assert [int(packet.qos) for packet in readings(effects)] == [1, 2, 2]


def test_what_the_next_broker_finds_too_large_is_refused() -> None:
    session = session_up()
    session.publisher.publish(large := new_reading(b"x" * 500, 2))
    session.publisher.publish(new_reading(b"small", 2))
    session.closed(0.0, by_broker=False)
    effects = connected(session, session_present=True, max_packet_size=300)
    (refused,) = news(ReadingRefused, effects)
    assert (refused.reading, refused.reason) == (large, Reason.PAYLOAD_TOO_LARGE)
    assert described(effects) == [("small", 2, True)]
    assert session.publisher.in_flight._qos2 == 1


Steps = st.lists(st.sampled_from(["publish", "puback", "pubrec", "pubcomp", "break"]), max_size=40)


@pytest.mark.guarantee("2", "5")
@given(Steps, st.booleans(), st.integers(1, 4), st.data())
def test_whatever_breaks_each_reading_is_settled_once_under_one_tag_and_in_order(
    steps: list[str], trust_session: bool, receive_max: int, data: st.DataObject
) -> None:
    session = session_up(trust_session=trust_session, receive_max=receive_max)
    effects: list[Output] = []
    came: list[bytes] = []
    in_flight = session.publisher.in_flight
    for step in [*steps, *["puback", "pubrec", "pubcomp"] * (len(steps) * 4)]:
        if step == "publish":
            came.append(b"%d" % len(came))
            sent = session.publisher.publish(new_reading(came[-1], data.draw(st.integers(1, 2))))
            effects += [] if sent is None else [sent]
        elif step == "break":
            session.closed(0.0, by_broker=False)
            receive_max = data.draw(st.integers(1, 4))
            present = data.draw(st.booleans())
            effects += connected(session, session_present=present, receive_max=receive_max)
        else:
            effects += session.receive(oldest(session, step), 1.0)
        # A narrower window cannot take back a PUBREL, which needs no place in it (MQTT 5, 4.9).
        assert len(in_flight) <= receive_max or not in_flight.published
    acknowledged = [
        reading.payload for each in news(ReadingsAcknowledged, effects) for reading in each.readings
    ]
    assert sorted(acknowledged) == sorted(came)
    assert len(in_flight) == in_flight._qos2 == in_flight.waiting_bytes == 0
    tags = {packet.payload: tag(packet)["seq"] for packet in readings(effects)}
    assert [tags[payload] for payload in came] == [str(number) for number in range(len(came))]
    for packet in readings(effects):
        assert tag(packet)["seq"] == tags[packet.payload]
    first_tries = list(dict.fromkeys(packet.payload for packet in readings(effects)))
    assert first_tries == came


def oldest(session: MqttSession, step: str) -> bytes:
    """The broker's answer to the oldest reading that waits for one of this kind."""
    in_flight = session.publisher.in_flight
    if step == "pubcomp":
        return b"".join(pubcomp(packet_id) for packet_id in list(in_flight.released)[:1])
    qos, answer = (1, puback) if step == "puback" else (2, pubrec)
    ids = [key for key, reading in in_flight.published.items() if reading.upstream_qos == qos]
    return b"".join(answer(packet_id) for packet_id in ids[:1])
