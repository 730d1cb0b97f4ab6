"""With `trust = session` the PUBREC for what is in the journal is on record before PUBREL."""

from __future__ import annotations

from typing import Any

import mqtt5
import pytest

from gateway.core.effects import (
    ConnectRecorded,
    DropUpstream,
    ReceiptRecorded,
    RecordConnect,
    RecordReceived,
)
from gateway.core.events import Output, ReadingRefused
from gateway.core.mqtt.session import RECORD_S, MqttSession
from gateway.core.values import Reading
from tests.core.mqtt.broker_side import (
    connected,
    new_reading,
    news,
    only,
    options,
    pubcomp,
    pubrec,
    readings,
    tag,
)


def stored(payload: bytes = b"21.5", qos: int = 2, record: int = 0) -> Reading:
    reading = new_reading(payload, qos)
    reading.record = record
    return reading


def session_up(*, trust_session: bool = True, **connack: Any) -> MqttSession:
    session = MqttSession(options(trust_session=trust_session))
    connected(session, **connack)
    return session


def asked(effects: list[Output]) -> ReceiptRecorded:
    """What the one RecordReceived hands out when it is durable."""
    (record,) = news(RecordReceived, effects)
    assert isinstance(record.then, ReceiptRecorded)
    return record.then


def pubrels(effects: list[Output]) -> list[int]:
    return [packet.packet_id for packet in only(mqtt5.PubRelPacket, effects)]


def test_pubrel_waits_for_the_record_of_pubrec() -> None:
    session = session_up()
    session.publisher.publish(stored())
    effects = session.receive(pubrec(1), 1.0)
    assert pubrels(effects) == []
    assert session.receive(pubrec(1), 1.0) == [], "it is on its way to the disk"
    assert pubrels(session.publisher.recorded(asked(effects))) == [1]
    assert len(session.receive(pubcomp(1), 1.0)) == 1


@pytest.mark.parametrize(
    ("trust_session", "record"), [(True, -1), (False, 0)], ids=["not stored", "not trusted"]
)
def test_pubrel_waits_for_nothing_that_nobody_would_read(trust_session: bool, record: int) -> None:
    session = session_up(trust_session=trust_session)
    session.publisher.publish(stored(record=record))
    assert pubrels(session.receive(pubrec(1), 1.0)) == [1]


def test_what_is_not_in_the_journal_is_not_released_before_what_is_being_recorded() -> None:
    session = session_up()
    session.publisher.publish(stored())
    session.publisher.publish(stored(b"could not be stored", record=-1))
    first = asked(session.receive(pubrec(1), 1.0))
    effects = session.receive(pubrec(2), 1.0)
    assert pubrels(effects) == [], "the broker routes in the order of PUBREL"
    assert pubrels(session.publisher.recorded(first)) == [1]
    assert pubrels(session.publisher.recorded(asked(effects))) == [2]


def test_a_record_that_is_durable_after_a_break_releases_nothing() -> None:
    session = session_up()
    session.publisher.publish(stored())
    release = asked(session.receive(pubrec(1), 1.0))
    session.closed(0.0, by_broker=False)
    assert session.publisher.recorded(release) == [], "there is no connection"
    effects = connected(session, session_present=True)
    assert pubrels(effects) == []
    assert [packet.duplicate for packet in readings(effects)] == [True], "PUBREC comes again"


@pytest.mark.guarantee("2")
def test_connect_waits_until_what_the_broker_received_counts_no_more() -> None:
    session = session_up()
    session.publisher.publish(stored())
    session.closed(0.0, by_broker=False)
    (record,) = session.opened(2.0)
    assert isinstance(record, RecordConnect)
    assert isinstance(record.then, ConnectRecorded)
    assert len(only(mqtt5.ConnectPacket, session.connect(record.then, 3.0))) == 1
    assert session.connect(record.then, 3.0) == [], "once"
    assert session.wake_at() == 3.0 + options().connack_timeout_s


def test_connect_waits_for_what_waits_again_with_half_of_it_at_the_broker() -> None:
    session = session_up()
    readings = [stored(b"%d" % number, record=number) for number in range(2)]
    for reading in readings:
        session.publisher.publish(reading)
    asked(session.receive(pubrec(2), 1.0))
    session.closed(0.0, by_broker=False)
    connected(session, session_present=True, receive_max=1)
    session.publisher.in_flight.withdraw(1)
    session.closed(0.0, by_broker=False)
    assert len(news(RecordConnect, session.opened(2.0))) == 1


@pytest.mark.parametrize(
    ("trust_session", "qos", "record"),
    [(True, 1, 0), (True, 2, -1), (False, 2, 0)],
    ids=["QoS 1", "not stored", "not trusted"],
)
def test_connect_waits_for_nothing_that_is_not_on_record(
    trust_session: bool, qos: int, record: int
) -> None:
    session = session_up(trust_session=trust_session)
    session.publisher.publish(stored(qos=qos, record=record))
    session.closed(0.0, by_broker=False)
    assert len(only(mqtt5.ConnectPacket, session.opened(2.0))) == 1


def test_connect_does_not_wait_for_ever_for_a_journal_that_fails() -> None:
    session = session_up()
    session.publisher.publish(stored())
    session.closed(0.0, by_broker=False)
    session.opened(2.0)
    assert session.wake_at() == 2.0 + RECORD_S
    assert session.handle_time(2.0 + RECORD_S - 0.1) == []
    assert len(only(mqtt5.ConnectPacket, session.handle_time(2.0 + RECORD_S))) == 1


def test_a_record_for_a_transport_that_is_gone_lets_no_other_connect() -> None:
    session = session_up()
    session.publisher.publish(stored())
    session.closed(0.0, by_broker=False)
    (first,) = news(RecordConnect, session.opened(2.0))
    session.closed(0.0, by_broker=False)
    (second,) = news(RecordConnect, session.opened(3.0))
    assert isinstance(first.then, ConnectRecorded)
    assert isinstance(second.then, ConnectRecorded)
    assert session.connect(first.then, 3.0) == []
    assert len(only(mqtt5.ConnectPacket, session.connect(second.then, 3.0))) == 1


def test_a_broker_that_speaks_before_connect_is_left() -> None:
    session = session_up()
    session.publisher.publish(stored())
    session.closed(0.0, by_broker=False)
    session.opened(2.0)
    (drop,) = session.receive(pubrec(1), 2.0)
    assert isinstance(drop, DropUpstream)
    assert drop.reason.endswith("PUBREC while recording")


def test_what_was_not_connected_for_is_still_released_in_the_next_connection() -> None:
    session = session_up()
    session.publisher.publish(stored())
    session.publisher.recorded(asked(session.receive(pubrec(1), 1.0)))
    session.closed(0.0, by_broker=False)
    session.opened(2.0)
    session.closed(0.0, by_broker=False)
    effects = connected(session, session_present=True)
    assert readings(effects) == []
    assert pubrels(session.publisher.recorded(asked(effects))) == [1]


def test_a_record_of_the_connection_before_does_not_keep_pubrel_back_in_this_one() -> None:
    session = session_up()
    session.publisher.publish(stored())
    first = asked(session.receive(pubrec(1), 1.0))
    session.closed(0.0, by_broker=False)
    connected(session, session_present=True)
    second = asked(session.receive(pubrec(1), 2.0))
    assert pubrels(session.publisher.recorded(first)) == []
    assert pubrels(session.publisher.recorded(second)) == [1]


def test_a_record_for_a_reading_that_was_published_as_new_releases_nothing() -> None:
    session = session_up()
    session.publisher.publish(stored())
    release = asked(session.receive(pubrec(1), 1.0))
    session.closed(0.0, by_broker=False)
    connected(session, session_present=False, receive_max=1)
    session.publisher.in_flight.withdraw(1)
    assert session.publisher.recorded(release) == []


def test_a_record_for_a_reading_that_the_broker_refused_meanwhile_releases_nothing() -> None:
    session = session_up()
    session.publisher.publish(stored())
    release = asked(session.receive(pubrec(1), 1.0))
    assert len(news(ReadingRefused, session.receive(pubrec(1, 0x83), 1.0))) == 1
    assert session.publisher.recorded(release) == []


def test_what_a_former_life_had_on_record_is_released_and_nothing_is_numbered_like_it() -> None:
    session = MqttSession(options(trust_session=True, epoch=4))
    reading = stored()
    reading.epoch, reading.sequence, reading.packet_id = 3, 6, 7
    session.publisher.restore([reading], last_packet_id=9)
    effects = connected(session, session_present=True)
    assert pubrels(effects) == [], "CONNECT has made the record void"
    assert pubrels(session.publisher.recorded(asked(effects))) == [7]
    new = stored(b"new", record=1)
    (packet,) = readings([session.publisher.publish(new) or pytest.fail("it may go")])
    assert (packet.packet_id, tag(packet)["seq"], packet.duplicate) == (10, "0", False)


def test_what_a_former_life_had_on_record_is_void_from_connect_on_whatever_the_trust() -> None:
    session = MqttSession(options(trust_session=False, epoch=4))
    reading = stored()
    reading.epoch, reading.sequence, reading.packet_id = 3, 6, 7
    session.publisher.restore([reading], last_packet_id=7)
    assert len(news(RecordConnect, session.opened(0.0))) == 1


def test_what_a_former_life_had_on_record_is_published_as_new_to_a_broker_that_forgot() -> None:
    session = MqttSession(options(trust_session=True, epoch=4))
    reading = stored()
    reading.epoch, reading.sequence, reading.packet_id = 3, 6, 7
    session.publisher.restore([reading], last_packet_id=7)
    (packet,) = readings(connected(session, session_present=False))
    assert (packet.packet_id, tag(packet)["epoch"], tag(packet)["seq"]) == (7, "3", "6")
    assert not packet.duplicate


def test_a_reading_of_a_former_life_is_a_duplicate_to_a_broker_that_remembers() -> None:
    session = MqttSession(options(epoch=4))
    connected(session, session_present=True)
    reading = stored(qos=1)
    reading.epoch, reading.sequence, reading.packet_id = 3, 6, 7
    (packet,) = readings([session.publisher.publish(reading) or pytest.fail("it may go")])
    assert packet.duplicate
