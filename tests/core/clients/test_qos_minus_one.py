"""QoS -1: readings from anyone who may reach the port, if the operator wants them."""

from __future__ import annotations

import pytest

from gateway.core.clients.qos_minus_one import NOBODY, QosMinusOne, QosMinusOneOptions
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.session.options import PredefinedTopics, SessionOptions
from gateway.core.state_records import ClientId
from gateway.core.values import Peer, Reading
from gateway.frames import Publish, TopicIdType

PEER = Peer(0, b"somewhere")
PREDEFINED = PredefinedTopics.of({"sensors/boot": 1})
SHORT_TP = int.from_bytes(b"tp", "big")


def receive(
    frame: Publish, *, allow: bool = True, long_topics: bool = False, client: str | None = None
) -> Reading | Dropped:
    options = QosMinusOneOptions(allow, long_topics)
    session_rules = SessionOptions(payload_bytes_max=16, topic_bytes_max=8)
    judge = QosMinusOne(options, session_rules, PREDEFINED)
    return judge.receive(frame, PEER, None if client is None else ClientId(client), 5.0)


def new_reading(topic_id: int, kind: TopicIdType, payload: bytes = b"hi") -> Publish:
    return Publish(topic_id, 0, payload, -1, topic_id_type=kind)


@pytest.mark.parametrize(
    ("frame", "topic", "payload"),
    [
        (new_reading(1, TopicIdType.PREDEFINED), "sensors/boot", b"hi"),
        (new_reading(SHORT_TP, TopicIdType.SHORT), "tp", b"hi"),
        (new_reading(5, TopicIdType.NORMAL, b"hellotest"), "hello", b"test"),
        (new_reading(5, TopicIdType.NORMAL, b"hello"), "hello", b""),
    ],
)
def test_a_reading_that_names_its_topic_is_forwarded_at_most_once(
    frame: Publish, topic: str, payload: bytes
) -> None:
    reading = receive(frame, long_topics=True)
    assert isinstance(reading, Reading)
    assert (reading.topic, reading.payload, reading.qos) == (topic, payload, 0)
    assert (reading.client_id, reading.received_at) == (NOBODY, 5.0)


def test_a_client_known_at_the_address_signs_the_reading() -> None:
    reading = receive(new_reading(1, TopicIdType.PREDEFINED), client="s1")
    assert isinstance(reading, Reading)
    assert reading.client_id == "s1"


@pytest.mark.parametrize(
    "frame",
    [
        new_reading(2, TopicIdType.PREDEFINED),
        new_reading(int.from_bytes(b"a+", "big"), TopicIdType.SHORT),
        new_reading(0xFFFE, TopicIdType.SHORT),
        new_reading(1, TopicIdType.RESERVED),
        new_reading(0, TopicIdType.NORMAL, b"hi"),
        new_reading(3, TopicIdType.NORMAL, b"hi"),
        new_reading(9, TopicIdType.NORMAL, b"too/longyes"),
        new_reading(2, TopicIdType.NORMAL, b"#/hi"),
    ],
)
def test_a_reading_without_a_topic_that_one_may_publish_to_is_dropped(frame: Publish) -> None:
    dropped = receive(frame, long_topics=True)
    assert isinstance(dropped, Dropped)
    assert (dropped.reason, dropped.peer) == (Reason.UNKNOWN_TOPIC_ID, PEER)


def test_the_long_form_is_off_unless_switched_on() -> None:
    dropped = receive(new_reading(5, TopicIdType.NORMAL, b"hellotest"))
    assert isinstance(dropped, Dropped)
    assert dropped.reason is Reason.UNKNOWN_TOPIC_ID


def test_all_of_it_is_off_unless_allowed_and_the_log_says_how() -> None:
    dropped = receive(new_reading(1, TopicIdType.PREDEFINED), allow=False, client="s1")
    assert isinstance(dropped, Dropped)
    assert (dropped.reason, dropped.client_id) == (Reason.QOS_MINUS_ONE_OFF, "s1")
    assert "qos_minus_one.allow = true" in dropped.detail


@pytest.mark.parametrize(("payload_bytes", "kept"), [(16, True), (17, False)])
def test_a_payload_is_bounded(payload_bytes: int, kept: bool) -> None:
    outcome = receive(new_reading(1, TopicIdType.PREDEFINED, b"x" * payload_bytes))
    if kept:
        assert isinstance(outcome, Reading)
    else:
        assert isinstance(outcome, Dropped)
        assert outcome.reason is Reason.PAYLOAD_TOO_LARGE
