"""A reading does not overtake a QoS 2 reading of its client on its topic, at the broker either."""

from __future__ import annotations

from typing import Any

import mqtt5
import pytest

from gateway.core.events import ReadingRefused
from gateway.core.mqtt import qos_order as module
from gateway.core.mqtt.inflight import InFlight
from gateway.core.mqtt.qos_order import QosOrder
from gateway.core.mqtt.session import MqttSession
from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from tests.core.mqtt.broker_side import (
    connected,
    new_reading,
    options,
    puback,
    pubcomp,
    pubrec,
    readings,
)


def session_up(**connack: Any) -> MqttSession:
    session = MqttSession(options())
    connected(session, **connack)
    return session


def publish(session: MqttSession, *readings: Reading) -> list[bytes]:
    """What of it goes out at once."""
    sent = [session.publisher.publish(reading) for reading in readings]
    return payloads([each for each in sent if each is not None])


def payloads(effects: list[Any]) -> list[bytes]:
    return [packet.payload or b"" for packet in readings(effects)]


def complete(session: MqttSession, packet_id: int) -> list[bytes]:
    """The broker completes a QoS 2 reading; returns what goes out for it."""
    effects = session.receive(pubrec(packet_id), 0.0)
    return payloads([*effects, *session.receive(pubcomp(packet_id), 0.0)])


@pytest.mark.guarantee("3")
def test_qos_1_waits_until_qos_2_before_it_is_complete() -> None:
    session = session_up()
    assert publish(session, new_reading(b"1", 2), new_reading(b"2", 1)) == [b"1"]
    assert complete(session, 1) == [b"2"]


def test_others_do_not_wait() -> None:
    session = session_up()
    sent = publish(
        session,
        new_reading(b"1", 2),
        new_reading(b"held", 1),
        new_reading(b"another topic", 1, topic="u"),
        new_reading(b"another client", 1, client="s2"),
    )
    assert sent + payloads(session.publisher.pump(0.0)) == [
        b"1", b"another topic", b"another client",
    ]  # fmt: skip


def test_everything_of_the_client_on_the_topic_goes_behind_what_waits() -> None:
    session = session_up()
    qualities = (2, 1, 2, 0, 1, 1)
    sent = publish(session, *(new_reading(b"%d" % n, qos) for n, qos in enumerate(qualities)))
    assert sent == [b"0"]
    assert complete(session, 1) == [b"1", b"2", b"3"]
    assert complete(session, 3) == [b"4", b"5"]


def test_qos_2_follows_qos_2_at_once() -> None:
    session = session_up()
    assert publish(session, new_reading(b"1", 2), new_reading(b"2", 2)) == [b"1", b"2"]
    assert publish(session, new_reading(b"3", 1)) == []
    assert complete(session, 1) == []
    assert complete(session, 2) == [b"3"]


def test_at_a_broker_without_qos_2_nobody_waits() -> None:
    session = session_up(max_qos=mqtt5.QoS.AT_LEAST_ONCE)
    assert publish(session, new_reading(b"1", 2), new_reading(b"2", 1)) == [b"1", b"2"]


@pytest.mark.parametrize("session_present", [True, False])
def test_what_waits_goes_out_in_its_turn_after_a_break(session_present: bool) -> None:
    session = session_up()
    publish(session, new_reading(b"1", 2), new_reading(b"2", 1), new_reading(b"3", 2))
    session.closed(0.0, by_broker=False)
    publish(session, new_reading(b"4", 1))
    assert payloads(connected(session, session_present=session_present)) == [b"1"]
    assert complete(session, 1) == [b"2", b"3"]
    assert complete(session, 3) == [b"4"]


def test_a_refused_qos_2_reading_sets_those_behind_it_free() -> None:
    session = session_up()
    publish(session, new_reading(b"1", 2), new_reading(b"2", 1))
    assert payloads(session.receive(pubrec(1, 0x83), 0.0)) == [b"2"]


def test_the_window_holds_for_those_that_were_aside() -> None:
    session = session_up(receive_max=1)
    assert publish(session, new_reading(b"1", 2), new_reading(b"2", 1), new_reading(b"3", 1)) == [
        b"1"
    ]
    assert complete(session, 1) == [b"2"]
    assert len(session.publisher.in_flight) == 1


def test_beyond_the_limit_what_would_come_aside_stays_in_its_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ASIDE_MAX", 2)
    session = session_up()
    held = [new_reading(b"%d" % number, 1) for number in range(4)]
    publish(session, new_reading(b"first", 2), *held)
    assert session.publisher.pump(0.0) == []
    in_flight = session.publisher.in_flight
    assert (in_flight.qos_order.count, len(in_flight.waiting)) == (2, 2)
    assert complete(session, 1) == [b"0", b"1", b"2", b"3"]
    assert not in_flight.qos_order.is_busy


def test_what_is_aside_takes_a_place_among_those_that_wait() -> None:
    session = MqttSession(options(waiting_messages_max=2))
    connected(session)
    assert publish(
        session, new_reading(b"first", 2), new_reading(b"1", 1), new_reading(b"2", 1)
    ) == [b"first"]
    session.publisher.pump(0.0)
    assert session.publisher.in_flight.qos_order.count == 2
    assert isinstance(session.publisher.publish(new_reading(b"3", 1)), ReadingRefused)


def test_what_was_free_waits_again_behind_another_qos_2_reading() -> None:
    turns = QosOrder()
    first, second = new_reading(b"1", 2), new_reading(b"2", 2)
    turns.begin(first)
    turns.set_aside(new_reading(b"held", 1))
    turns.end(first)
    turns.begin(second)
    assert turns.next_free() is None
    turns.end(second)
    assert turns.next_free() is not None


def test_what_waits_for_nothing_any_more_still_waits_for_room() -> None:
    session = session_up(receive_max=2)
    held = new_reading(b"1", 1), new_reading(b"2", 1)
    assert publish(session, new_reading(b"0", 2), *held) == [b"0"]
    publish(session, new_reading(b"other", 1, client="s2"))
    assert payloads(session.publisher.pump(0.0)) == [b"other"]
    assert complete(session, 1) == [b"1"], "the second place is taken"
    assert payloads(session.receive(puback(2), 0.0)) == [b"2"]


def test_what_was_read_back_and_what_came_now_go_in_turns() -> None:
    in_flight = InFlight(waiting_messages_max=10, waiting_bytes_max=10_000)
    in_flight.window = 10
    for n in range(2):
        in_flight.wait(new_reading(b"new %d" % n, 1, client="s2"), ahead=False)
    in_flight.backlog.restore({ClientId("s1"): 2})
    in_flight.backlog.read_back([new_reading(b"old %d" % n, 1) for n in range(2)])
    went = [in_flight.next_waiting() for _ in range(5)]
    assert [each and each.payload for each in went] == [
        b"new 0",
        b"old 0",
        b"new 1",
        b"old 1",
        None,
    ]
