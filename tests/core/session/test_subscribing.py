"""What a client asks to hear: its forms, its answers, its limits."""

from __future__ import annotations

import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Save
from gateway.core.events import UnsubscribeFrom
from gateway.core.session.options import SessionOptions
from gateway.core.state_records import (
    SessionDeleted,
    SubscriptionDeleted,
    SubscriptionRecord,
    TopicRecord,
)
from gateway.core.values import SubscribeTo
from gateway.frames import (
    Connect,
    Disconnect,
    Publish,
    Regack,
    Register,
    ReturnCode,
    Suback,
    Subscribe,
    TopicIdType,
    Unsuback,
    Unsubscribe,
)
from tests.core.session.client import DEV1, Client, connected

ACCEPTED, CONGESTION, INVALID_TOPIC_ID, NOT_SUPPORTED = ReturnCode
NORMAL, PREDEFINED, SHORT, RESERVED = TopicIdType
OVER = [Save(SessionDeleted(DEV1))]
SHORT_TP = int.from_bytes(b"tp", "big")


def is_granted(client: Client, wish: SubscribeTo) -> list[object]:
    return list(client.heard(client.session.subscribed(wish, ACCEPTED)))


# Forms


@pytest.mark.parametrize(
    ("topic", "kind", "topic_filter", "topic_id"),
    [
        (b"c/d", NORMAL, "c/d", 2),
        (b"a/b", NORMAL, "a/b", 1),
        (b"tp", NORMAL, "tp", 2),  # a normal name of two letters
        (b"c/+", NORMAL, "c/+", 0),
        (b"#", NORMAL, "#", 0),
        (b"\x00\x07", PREDEFINED, "sensors/boot", 7),
        (b"tp", SHORT, "tp", SHORT_TP),
    ],
)
def test_suback_names_what_was_subscribed_and_waits_for_the_broker(
    topic: bytes, kind: TopicIdType, topic_filter: str, topic_id: int
) -> None:
    client = connected()
    assert client.says(Subscribe(3, topic, qos=2, topic_id_type=kind)) == []
    (wish,) = client.wishes
    assert wish == SubscribeTo(DEV1, topic_filter, 2, 3)
    assert client.session.asking() == [wish]
    assert is_granted(client, wish) == [Suback(topic_id, 3, ACCEPTED, qos=2)]
    assert client.session.asking() == []


@pytest.mark.parametrize(
    ("frame", "topic_id", "code", "reason"),
    [
        (Subscribe(3, b"a/#/b"), 0, NOT_SUPPORTED, Reason.BAD_FILTER),
        (Subscribe(3, b"\xff"), 0, NOT_SUPPORTED, Reason.BAD_FILTER),
        (Subscribe(3, b"$share/g/a"), 0, NOT_SUPPORTED, Reason.BAD_FILTER),
        (
            Subscribe(3, b"\x00\x63", topic_id_type=PREDEFINED),
            0x63,
            INVALID_TOPIC_ID,
            Reason.UNKNOWN_TOPIC_ID,
        ),
        (
            Subscribe(3, b"t#", topic_id_type=SHORT),
            int.from_bytes(b"t#", "big"),
            INVALID_TOPIC_ID,
            Reason.UNKNOWN_TOPIC_ID,
        ),
        (Subscribe(3, b"c/d", topic_id_type=RESERVED), 0, NOT_SUPPORTED, Reason.NOT_SUPPORTED),
        (Subscribe(3, b"c/d", qos=-1), 0, NOT_SUPPORTED, Reason.NOT_SUPPORTED),
    ],
    ids=repr,
)
def test_what_cannot_be_subscribed_is_refused_at_once(
    frame: Subscribe, topic_id: int, code: ReturnCode, reason: Reason
) -> None:
    client = connected()
    assert client.says(frame) == [Suback(topic_id, 3, code, qos=0)]
    assert client.drops == [reason]
    assert client.wishes == []


@pytest.mark.parametrize(
    ("topic", "kind", "topic_id"),
    [(b"c/d", NORMAL, 0), (b"\x00\x07", PREDEFINED, 7), (b"tp", SHORT, SHORT_TP)],
)
def test_a_refusal_of_the_broker_is_passed_on(
    topic: bytes, kind: TopicIdType, topic_id: int
) -> None:
    client = connected()
    client.says(Subscribe(3, topic, qos=1, topic_id_type=kind))
    answer = client.session.subscribed(client.wishes[0], NOT_SUPPORTED)
    assert client.heard(answer) == [Suback(topic_id, 3, NOT_SUPPORTED, qos=1)]
    assert client.session.end() == OVER


# How messages name their topic afterwards


@pytest.mark.parametrize(
    ("topic", "kind", "name", "topic_id"),
    [
        (b"c/d", NORMAL, "c/d", 2),
        (b"\x00\x07", PREDEFINED, "sensors/boot", 7),
        (b"tp", SHORT, "tp", SHORT_TP),
    ],
)
def test_messages_name_their_topic_as_the_client_did(
    topic: bytes, kind: TopicIdType, name: str, topic_id: int
) -> None:
    client = connected()
    client.subscribes(topic, kind)
    assert client.is_sent(name) == [Publish(topic_id, 1, b"on", qos=1, topic_id_type=kind)]


@pytest.mark.parametrize(("name", "kind"), [(b"\x00\x07", PREDEFINED), (b"tp", SHORT)])
def test_predefined_ids_and_short_names_need_no_register_in_the_next_connection(
    name: bytes, kind: TopicIdType
) -> None:
    client = connected()
    client.subscribes(name, kind)
    client.says(Connect(DEV1.encode(), 60))
    (frame,) = client.is_sent("tp" if kind is SHORT else "sensors/boot")
    assert isinstance(frame, Publish)
    assert frame.topic_id_type is kind


def test_each_name_is_spelled_as_it_was_subscribed() -> None:
    client = connected()
    client.subscribes(b"\x00\x07", PREDEFINED)
    client.subscribes(b"tp", SHORT)
    assert client.is_sent("sensors/boot", qos=0) == [Publish(7, 0, b"on", topic_id_type=PREDEFINED)]
    assert client.is_sent("tp", qos=0) == [Publish(SHORT_TP, 0, b"on", topic_id_type=SHORT)]


def test_a_predefined_name_that_was_not_subscribed_by_its_id_is_registered() -> None:
    client = connected()
    client.subscribes(b"sensors/#")
    assert client.is_sent("sensors/boot") == [Register(2, 1, b"sensors/boot")]


def test_a_name_subscribed_last_by_name_is_delivered_by_its_number() -> None:
    client = connected()
    client.subscribes(b"\x00\x07", PREDEFINED)
    assert client.subscribes(b"sensors/boot") == [Suback(2, 100, ACCEPTED, qos=1)]
    assert client.is_sent("sensors/boot") == [Publish(2, 1, b"on", qos=1)]


def test_a_refused_name_is_heard_again_once_it_is_subscribed_by_its_predefined_id() -> None:
    client = connected()
    client.is_sent("sensors/boot")
    client.says(Regack(2, 1, NOT_SUPPORTED))
    client.subscribes(b"\x00\x07", PREDEFINED)
    assert len(client.is_sent("sensors/boot")) == 1


# Repeats


def test_a_repeated_subscribe_is_dropped_while_its_answer_is_on_the_way() -> None:
    client = connected()
    client.says(Subscribe(3, b"c/d", qos=1))
    (wish,) = client.wishes
    assert client.says(Subscribe(3, b"c/d", qos=1, dup=True), at=10.0) == []
    assert client.drops == [Reason.REPEATED]
    assert is_granted(client, wish) == [Suback(2, 3, ACCEPTED, qos=1)]


def test_a_subscribe_repeated_after_its_answer_is_asked_and_answered_again() -> None:
    client = connected()
    assert client.subscribes(b"c/d") == client.subscribes(b"c/d")


@pytest.mark.parametrize(
    "other",
    [
        Subscribe(3, b"e/f", qos=1),
        Subscribe(3, b"c/d", qos=0),
        Subscribe(3, b"\x00\x07", qos=1, topic_id_type=PREDEFINED),
        Subscribe(3, b"a/#/b", qos=1),
    ],
    ids=repr,
)
def test_under_the_id_of_a_wish_that_waits_nothing_is_answered_until_that_is_done(
    other: Subscribe,
) -> None:
    """A client that restarted would take the first one's answer for its own."""
    client = connected()
    client.says(Subscribe(3, b"c/d", qos=1))
    (wish,) = client.wishes
    assert client.says(other) == []
    assert client.drops == [Reason.REPEATED]
    assert is_granted(client, wish) == []
    client.says(other, at=10.0)
    assert Reason.REPEATED not in client.drops


def test_a_client_that_comes_back_to_its_first_subscribe_hears_suback() -> None:
    client = connected()
    client.says(Subscribe(3, b"c/d", qos=1))
    (wish,) = client.wishes
    client.says(Subscribe(3, b"e/f", qos=1))
    client.says(Subscribe(3, b"c/d", qos=1, dup=True), at=10.0)
    assert is_granted(client, wish) == [Suback(2, 3, ACCEPTED, qos=1)]


def test_two_wishes_may_wait_at_once() -> None:
    client = connected()
    client.says(Subscribe(3, b"c/d"))
    (first,) = client.wishes
    client.says(Subscribe(4, b"e/f"))
    (second,) = client.wishes
    assert is_granted(client, second) == [Suback(3, 4, ACCEPTED)]
    assert is_granted(client, first) == [Suback(2, 3, ACCEPTED)]


@pytest.mark.parametrize("frame", [Connect(DEV1.encode(), 60), Disconnect()], ids=repr)
@pytest.mark.parametrize(
    ("topic", "kind", "topic_filter"),
    [(b"c/d", NORMAL, "c/d"), (b"c/#", NORMAL, "c/#"), (b"\x00\x07", PREDEFINED, "sensors/boot")],
)
def test_a_wish_whose_connection_ended_is_fulfilled_without_suback(
    topic: bytes, kind: TopicIdType, topic_filter: str, frame: Connect | Disconnect
) -> None:
    client = connected()
    client.says(Subscribe(3, topic, topic_id_type=kind))
    client.says(Unsubscribe(4, b"e/f"))
    (wish,) = client.session.asking()
    client.says(frame)
    assert is_granted(client, wish) == []
    assert client.session.end() == [UnsubscribeFrom(DEV1, topic_filter), *OVER]


def test_a_name_whose_number_came_in_no_suback_is_registered_before_its_first_message() -> None:
    client = connected()
    client.says(Subscribe(3, b"c/d"))
    (wish,) = client.wishes
    client.says(Connect(DEV1.encode(), 60))
    is_granted(client, wish)
    assert client.is_sent("c/d") == [Register(2, 1, b"c/d")]


def test_a_client_that_asks_again_after_reconnecting_hears_suback() -> None:
    client = connected()
    client.says(Subscribe(3, b"c/d"))
    (wish,) = client.wishes
    client.says(Connect(DEV1.encode(), 60))
    client.says(Subscribe(3, b"c/d", dup=True))
    assert is_granted(client, wish) == [Suback(2, 3, ACCEPTED)]


def test_a_wish_is_answered_to_a_client_that_went_to_sleep() -> None:
    client = connected()
    client.says(Subscribe(3, b"c/d"))
    (wish,) = client.wishes
    client.sleeps()
    assert is_granted(client, wish) == [Suback(2, 3, ACCEPTED)]


# Limits


def test_beyond_the_limit_a_filter_is_refused_and_those_it_has_may_be_repeated() -> None:
    client = connected(options=SessionOptions(subscriptions_max=2))
    client.subscribes(b"c/#")
    client.subscribes(b"d/#")
    assert client.says(Subscribe(3, b"e/#", qos=1)) == [Suback(0, 3, CONGESTION, qos=1)]
    assert client.drops == [Reason.SUBSCRIPTIONS_FULL]
    assert client.subscribes(b"d/#", qos=2) == [Suback(0, 100, ACCEPTED, qos=2)]


def test_what_waits_for_the_broker_counts_towards_the_limit() -> None:
    client = connected(options=SessionOptions(subscriptions_max=1))
    client.says(Subscribe(3, b"c/#"))
    assert client.says(Subscribe(4, b"d/#")) == [Suback(0, 4, CONGESTION)]


def test_a_name_beyond_the_limit_of_names_is_refused_and_a_wildcard_is_not() -> None:
    client = connected(options=SessionOptions(topics_max=1))
    assert client.says(Subscribe(3, b"c/d")) == [Suback(0, 3, CONGESTION)]
    assert client.drops == [Reason.TOPICS_FULL]
    assert client.subscribes(b"c/#") == [Suback(0, 100, ACCEPTED, qos=1)]


# Unsubscribing


@pytest.mark.parametrize(
    ("topic", "kind", "topic_filter"),
    [
        (b"c/+", NORMAL, "c/+"),
        (b"c/d", NORMAL, "c/d"),
        (b"\x00\x07", PREDEFINED, "sensors/boot"),
        (b"tp", SHORT, "tp"),
    ],
)
def test_unsubscribe_takes_the_forms_of_subscribe(
    topic: bytes, kind: TopicIdType, topic_filter: str
) -> None:
    client = connected()
    client.subscribes(topic, kind)
    assert client.says(Unsubscribe(9, topic, kind)) == [Unsuback(9)]
    assert UnsubscribeFrom(DEV1, topic_filter) in client.effects
    assert client.session.end() == OVER


@pytest.mark.parametrize(
    "frame",
    [
        Unsubscribe(9, b"never/asked"),
        Unsubscribe(9, b"a/#/b"),
        Unsubscribe(9, b"\x00\x63", PREDEFINED),
        Unsubscribe(9, b"t#", SHORT),
        Unsubscribe(9, b"c/d", RESERVED),
    ],
    ids=repr,
)
def test_unsuback_comes_whatever_was_subscribed(frame: Unsubscribe) -> None:
    client = connected()
    assert client.says(frame) == [Unsuback(9)]
    assert len(client.effects) == 1


def test_what_is_subscribed_is_saved_as_the_client_spells_it() -> None:
    client = connected()
    for topic, kind, row in (
        (b"c/+", NORMAL, SubscriptionRecord(DEV1, "c/+", 1, 0, 0)),
        (b"c/d", NORMAL, SubscriptionRecord(DEV1, "c/d", 1, 0, 0)),
        (b"\x00\x07", PREDEFINED, SubscriptionRecord(DEV1, "sensors/boot", 1, 1, 7)),
        (b"tp", SHORT, SubscriptionRecord(DEV1, "tp", 1, 2, SHORT_TP)),
    ):
        client.says(Subscribe(3, topic, 1, topic_id_type=kind))
        topics = [TopicRecord(DEV1, 2, "c/d")] if row.topic_filter == "c/d" else []
        assert client.saved == topics, "before it is asked for"
        assert client.session.subscription_row(client.wishes[0]) == row
        is_granted(client, client.wishes[0])
        client.says(Unsubscribe(9, topic, kind))
        assert client.saved == [SubscriptionDeleted(DEV1, row.topic_filter)]


def test_unsubscribe_waits_until_the_wish_for_its_filter_is_answered() -> None:
    client = connected()
    client.says(Subscribe(3, b"c/d"))
    (wish,) = client.wishes
    assert client.says(Unsubscribe(5, b"c/d")) == []
    assert client.drops == [Reason.OUT_OF_TURN]
    assert client.says(Unsubscribe(6, b"e/f")) == [Unsuback(6)]
    is_granted(client, wish)
    assert client.says(Unsubscribe(5, b"c/d"), at=10.0) == [Unsuback(5)]
    assert UnsubscribeFrom(DEV1, "c/d") in client.effects


def test_of_two_filters_the_other_stays_with_its_qos() -> None:
    client = connected()
    for topic, qos in ((b"c/#", 2), (b"d/#", 0)):
        client.says(Subscribe(3, topic, qos))
        is_granted(client, client.wishes[0])
    assert client.session.filters == {"c/#": 2, "d/#": 0}
    client.says(Unsubscribe(9, b"c/#"))
    assert client.session.filters == {"d/#": 0}
    client.says(Unsubscribe(9, b"d/#"))
    assert client.session.filters == {}


def test_after_unsubscribe_a_predefined_id_is_not_used_for_the_name_any_more() -> None:
    client = connected()
    client.subscribes(b"\x00\x07", PREDEFINED)
    client.says(Unsubscribe(9, b"\x00\x07", PREDEFINED))
    assert client.is_sent("sensors/boot") == [Register(2, 1, b"sensors/boot")]


def test_a_subscription_that_the_broker_ends_is_forgotten() -> None:
    client = connected()
    client.subscribes(b"c/#")
    client.session.unsubscribed("c/#")
    assert client.session.end() == OVER
