"""Our subscriptions at the broker while the wishes change: nothing missed, nothing twice."""

from __future__ import annotations

import mqtt5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.effects import DropUpstream, Save
from gateway.core.events import FilterRefused, Output, SubscriptionGranted
from gateway.core.mqtt import subscriber
from gateway.core.mqtt.options import CONTROL_ID_FIRST, CONTROL_ID_LAST
from gateway.core.mqtt.session import MqttSession
from gateway.core.mqtt.subscriber import PLAIN, Subscriber, identifier_of
from gateway.core.state_records import FilterDeleted, FilterRecord
from tests.core.mqtt.broker_side import connected, news, only, options, suback, unsuback
from tests.core.mqtt.subscribing_stories import (
    asked,
    given_up,
    grant,
    saved,
    subscriptions_up,
    wanting,
)

# Asking


@pytest.mark.guarantee("4e", "4f")
def test_a_filter_is_subscribed_for_what_is_retained_then_for_what_is_live() -> None:
    assert asked(wanting(subscriptions_up(), "a/b")) == [
        ("site/a/b", PLAIN | 1, 1, True, 0),
        ("site/a/b", PLAIN, 1, True, 2),
    ]


def test_without_its_retained_messages_it_is_subscribed_once() -> None:
    assert asked(wanting(subscriptions_up(), "a/b", retained=False)) == [
        ("site/a/b", PLAIN, 1, True, 2)
    ]


def test_a_broker_without_identifiers_gets_the_first_form_only() -> None:
    subscriptions = subscriptions_up(identifiers=False)
    assert not subscriptions.tells_retained
    effects = wanting(subscriptions, "a/b")
    assert asked(effects) == [("site/a/b", None, 1, False, 0)]
    assert grant(subscriptions, effects) == [SubscriptionGranted("a/b")]


def test_the_answer_to_the_second_form_is_the_grant() -> None:
    subscriptions = subscriptions_up()
    first, second = only(mqtt5.SubscribePacket, wanting(subscriptions, "a/b"))
    assert subscriptions.receive_suback(first.packet_id, [1]) == []
    assert not subscriptions.is_granted("a/b")
    assert subscriptions.receive_suback(second.packet_id, [1]) == [SubscriptionGranted("a/b")]
    assert subscriptions.is_granted("a/b")


def test_filters_without_wildcards_share_packets_and_others_do_not() -> None:
    effects = wanting(subscriptions_up(), "a", "b/+", "c", "d/#", retained=False)
    packets_asked = only(mqtt5.SubscribePacket, effects)
    assert [[each.pattern for each in packet.topic_filters] for packet in packets_asked] == [
        ["site/a", "site/c"], ["site/b/+"], ["site/d/#"],
    ]  # fmt: skip
    assert [packet.subscription_id for packet in packets_asked] == [
        PLAIN, identifier_of("b/+"), identifier_of("d/#"),
    ]  # fmt: skip
    assert [qos for _, _, qos, _, _ in asked(effects)] == [1, 1, 2, 2]


def test_a_packet_holds_a_bounded_number_of_filters() -> None:
    effects = wanting(subscriptions_up(), *[f"t{number}" for number in range(130)], retained=False)
    assert [len(packet.topic_filters) for packet in only(mqtt5.SubscribePacket, effects)] == [
        64, 64, 2,
    ]  # fmt: skip


def test_those_that_want_retained_messages_are_asked_for_apart() -> None:
    subscriptions = subscriptions_up()
    subscriptions.want("old", 0, retained=False)
    subscriptions.want("new", 0, retained=True)
    effects = subscriptions.advance()
    assert [(name, handling) for name, _, _, _, handling in asked(effects)] == [
        ("site/old", 2), ("site/new", 0), ("site/new", 2),
    ]  # fmt: skip


@pytest.mark.guarantee("4e", "4f")
def test_with_a_higher_quality_the_retained_messages_come_again() -> None:
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, "a", "w/#", qos=0))
    assert wanting(subscriptions, "a", "w/#", qos=0) == []
    assert asked(wanting(subscriptions, "a", "w/#", qos=1)) == [
        ("site/a", PLAIN | 1, 1, True, 0),
        ("site/a", PLAIN, 1, True, 2),
    ], "a filter with wildcards is at the highest quality already"


def test_a_filter_with_wildcards_has_an_identifier_of_its_own_in_every_life() -> None:
    filters = [f"a/{number}/+" for number in range(1000)]
    first, second = (
        {name: identifier for name, identifier, *_ in asked(wanting(one, *filters[:100]))}
        for one in (subscriptions_up(), subscriptions_up())
    )
    assert first == second
    assert len({PLAIN, *map(identifier_of, filters)}) == len(filters) + 1


@given(st.text(max_size=20))
def test_an_identifier_is_even_and_fits_its_field(topic_filter: str) -> None:
    identifier = identifier_of(topic_filter)
    assert identifier % 2 == 0
    assert PLAIN < identifier < 1 << 28


# Giving up


def test_a_wider_filter_is_granted_before_narrower_ones_are_given_up() -> None:
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, "a/b"))
    subscriptions.unwant("a/b")
    effects = wanting(subscriptions, "a/#")
    assert given_up(effects) == []
    assert subscriptions.overlapping
    answers = grant(subscriptions, effects)
    assert given_up(answers) == ["site/a/b"]
    assert subscriptions.overlapping, "until the broker has heard it"
    (packet,) = only(mqtt5.UnsubscribePacket, answers)
    subscriptions.receive_unsuback(packet.packet_id)
    assert not subscriptions.overlapping


def test_what_gives_way_to_a_wider_filter_brings_no_copy_at_a_lower_qos_meanwhile() -> None:
    """The copy that came first was passed on: at QoS 0, which is lost to those who sleep."""
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, "a/b", "c", qos=0))
    for topic_filter in ("a/b", "c"):
        subscriptions.unwant(topic_filter)
    effects = wanting(subscriptions, "a/+", "c/#", retained=False)
    assert [(name, qos, handling) for name, _, qos, _, handling in asked(effects)] == [
        ("site/a/b", 2, 2), ("site/c", 2, 2), ("site/a/+", 2, 2), ("site/c/#", 2, 2),
    ]  # fmt: skip
    answers = grant(subscriptions, effects)
    assert SubscriptionGranted("a/b") not in answers
    assert given_up(answers) == ["site/a/b", "site/c"]


def test_a_filter_that_is_raised_and_wanted_again_is_granted_anew() -> None:
    """The broker may have refused to raise it."""
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, "a/b", qos=0))
    subscriptions.unwant("a/b")
    raising, *_ = only(mqtt5.SubscribePacket, wanting(subscriptions, "a/+"))
    assert subscriptions.receive_suback(raising.packet_id, [0x87]) == []
    subscriptions.want("a/b", 0, retained=False)
    assert not subscriptions.is_granted("a/b")
    assert grant(subscriptions, subscriptions.advance())[0] == SubscriptionGranted("a/b")


def test_what_just_ends_and_what_gives_way_without_identifiers_is_not_raised() -> None:
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, "a/b", "x/#", qos=0))
    subscriptions.unwant("a/b")
    assert asked(wanting(subscriptions, "c", qos=0, retained=False)) == [("site/c", 2, 0, True, 2)]
    subscriptions = subscriptions_up(identifiers=False)
    grant(subscriptions, wanting(subscriptions, "a/b", qos=0))
    subscriptions.unwant("a/b")
    assert [name for name, *_ in asked(wanting(subscriptions, "a/#"))] == ["site/a/#"]


def test_so_many_are_raised_at_once_as_there_are_packet_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscriber, "ASKED_MAX", 2)
    subscriptions = subscriptions_up()
    subscriptions.filters_max = 1
    names = ("a/1", "a/2", "a/3")
    for name in names:
        grant(subscriptions, wanting(subscriptions, name, qos=0, retained=False))
    for name in names:
        subscriptions.unwant(name)
    subscriptions.want("a/#", 0, retained=False)
    effects = subscriptions.advance()
    assert [name for name, *_ in asked(effects)] == ["site/a/1", "site/a/2"]
    effects = grant(subscriptions, effects)
    assert [name for name, *_ in asked(effects)] == ["site/a/3", "site/a/#"]


def test_what_the_broker_has_from_a_former_connection_is_given_up_though_not_asked_for_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subscriptions = subscriptions_up()
    for name in ("a/+", "b/+"):
        grant(subscriptions, wanting(subscriptions, name))
    monkeypatch.setattr(subscriber, "ASKED_MAX", 2)
    effects = subscriptions.open(identifiers_available=True)
    assert [name for name, *_ in asked(effects)] == ["site/a/+", "site/a/+"]
    subscriptions.unwant("b/+")
    assert subscriptions.overlapping, "a message may come for each"
    assert given_up(grant(subscriptions, effects)) == ["site/b/+"]


def test_what_is_being_given_up_is_not_given_up_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, "a"))
    subscriptions.unwant("a")
    (packet,) = only(mqtt5.UnsubscribePacket, subscriptions.advance())
    monkeypatch.setattr(subscriber, "ASKED_MAX", 0)
    assert wanting(subscriptions, "a") == []
    subscriptions.unwant("a")
    assert given_up(subscriptions.advance()) == []
    assert saved(subscriptions.receive_unsuback(packet.packet_id)) == [FilterDeleted("a")]
    monkeypatch.undo()
    grant(subscriptions, wanting(subscriptions, "a"))
    subscriptions.unwant("a")
    assert len(only(mqtt5.UnsubscribePacket, subscriptions.advance())) == 1
    grant(subscriptions, wanting(subscriptions, "a"))
    subscriptions.unwant("a")
    assert subscriptions.overlapping
    assert subscriptions._stale == {"a": None}, "it was asked for again since"


def test_narrower_filters_are_granted_before_a_wider_one_is_given_up() -> None:
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, "a/#"))
    subscriptions.unwant("a/#")
    effects = wanting(subscriptions, "a/b", "a/+/c")
    first, *rest = only(mqtt5.SubscribePacket, effects)
    assert subscriptions.receive_suback(first.packet_id, [2]) == []
    answers = [subscriptions.receive_suback(packet.packet_id, [2]) for packet in rest]
    assert [given_up(each) for each in answers][-1] == ["site/a/#"]
    assert not any(given_up(each) for each in answers[:-1])


def test_one_unsubscribe_is_under_way_at_a_time_and_holds_a_bounded_number() -> None:
    subscriptions = subscriptions_up()
    names = [f"t{number}" for number in range(70)]
    grant(subscriptions, wanting(subscriptions, *names))
    for name in names:
        subscriptions.unwant(name)
    (first,) = only(mqtt5.UnsubscribePacket, subscriptions.advance())
    assert len(first.patterns) == 64
    assert subscriptions.advance() == []
    (second,) = only(mqtt5.UnsubscribePacket, subscriptions.receive_unsuback(first.packet_id))
    assert len(second.patterns) == 6


def test_a_filter_that_is_wanted_again_in_time_is_not_given_up() -> None:
    subscriptions = subscriptions_up()
    effects = wanting(subscriptions, "a")
    subscriptions.unwant("a")
    again = wanting(subscriptions, "a")
    assert len(asked(again)) == 2
    assert given_up(grant(subscriptions, effects) + grant(subscriptions, again)) == []


def test_a_filter_that_was_never_asked_for_needs_no_unsubscribe() -> None:
    subscriptions = Subscriber("")
    assert wanting(subscriptions, "a") == [], "the broker is away"
    subscriptions.unwant("a")
    assert subscriptions.open(identifiers_available=True) == []


# Refusals and odd answers


def test_a_refused_filter_is_reported_with_advice_and_not_asked_for_again() -> None:
    subscriptions = subscriptions_up()
    effects = wanting(subscriptions, "a", "b")
    _, second = only(mqtt5.SubscribePacket, effects)
    granted, gone, refused = subscriptions.receive_suback(second.packet_id, [1, 0x87])
    assert (granted, gone) == (SubscriptionGranted("a"), Save(FilterDeleted("b")))
    assert isinstance(refused, FilterRefused)
    assert refused.topic_filter == "b"
    assert "SUBACK 0x87: not authorised" in refused.reason
    subscriptions.unwant("b")
    assert subscriptions.advance() == []


def test_a_refusal_of_what_is_no_longer_wanted_needs_no_unsubscribe() -> None:
    subscriptions = subscriptions_up()
    effects = wanting(subscriptions, "a")
    subscriptions.unwant("a")
    assert given_up(grant(subscriptions, effects, 0x80)) == []


def test_two_answers_for_a_filter_of_which_the_first_refuses_count_once() -> None:
    subscriptions = subscriptions_up()
    effects = wanting(subscriptions, "a", retained=False)
    subscriptions.unwant("a")
    effects += wanting(subscriptions, "a", retained=False)
    answers = grant(subscriptions, effects, 0x80)
    assert len(news(FilterRefused, answers)) == 1
    assert saved(answers) == [FilterDeleted("a")]


def test_a_suback_with_too_few_codes_ends_the_connection() -> None:
    session = MqttSession(options())
    connected(session)
    effects = wanting(session.subscriptions, "a", "b", retained=False)
    (packet,) = only(mqtt5.SubscribePacket, effects)
    (drop,) = session.receive(suback(packet.packet_id, 1), 1.0)
    assert isinstance(drop, DropUpstream)
    assert drop.reason.endswith("SUBACK with 1 codes for 2 filters")


def test_answers_to_nothing_change_nothing() -> None:
    session = MqttSession(options())
    connected(session)
    assert session.receive(suback(9, 1) + unsuback(9), 1.0) == []


# Packet ids


def test_packet_ids_stay_clear_of_those_of_readings_and_of_those_in_use() -> None:
    subscriptions = subscriptions_up()
    filters = [f"f{number}/#" for number in range(400)]
    outstanding = only(mqtt5.SubscribePacket, wanting(subscriptions, *filters))
    assert len(outstanding) == subscriber.ASKED_MAX + 1, "the rest waits for answers"
    granted: list[Output] = []
    while outstanding:
        ids = [packet.packet_id for packet in outstanding]
        assert len(set(ids)) == len(ids)
        assert all(CONTROL_ID_FIRST <= each <= CONTROL_ID_LAST for each in ids)
        packet = outstanding.pop(len(outstanding) // 2)  # in no particular order
        answers = subscriptions.receive_suback(packet.packet_id, [2])
        granted += news(SubscriptionGranted, answers)
        outstanding += only(mqtt5.SubscribePacket, answers)
    assert sorted(each.topic_filter for each in news(SubscriptionGranted, granted)) == sorted(
        filters
    )


# Breaks


def test_after_a_break_everything_wanted_is_asked_for_again() -> None:
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, "a", "b/#", retained=False))
    subscriptions.close()
    assert not subscriptions.is_granted("a")
    effects = subscriptions.open(identifiers_available=True)
    assert [(name, handling) for name, _, _, _, handling in asked(effects)] == [
        ("site/a", 0), ("site/a", 2), ("site/b/#", 0), ("site/b/#", 2),
    ], "with what is retained, which may have changed meanwhile"  # fmt: skip


def test_what_was_to_be_given_up_before_a_break_is_given_up_after_it() -> None:
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, "sent", "stale", "kept"))
    subscriptions.unwant("sent")
    assert given_up(subscriptions.advance()) == ["site/sent"]
    subscriptions.unwant("stale")
    subscriptions.close()
    effects = subscriptions.open(identifiers_available=True)
    assert sorted(given_up(grant(subscriptions, effects))) == ["site/sent", "site/stale"]


def test_what_the_broker_refused_since_is_not_given_up_after_a_break() -> None:
    """Its refusal says that it has read the UNSUBSCRIBE before it."""
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, "a/b"))
    subscriptions.unwant("a/b")
    assert given_up(subscriptions.advance()) == ["site/a/b"]  # and no answer comes
    grant(subscriptions, wanting(subscriptions, "a/b"), 0x87)
    subscriptions.unwant("a/b")
    subscriptions.close()
    again = subscriptions.open(identifiers_available=True)
    assert (asked(again), given_up(again)) == ([], [])


def test_what_was_given_up_and_is_wanted_again_survives_a_break() -> None:
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, "a"))
    subscriptions.unwant("a")
    subscriptions.advance()
    wanting(subscriptions, "a")
    subscriptions.close()
    effects = subscriptions.open(identifiers_available=True)
    assert given_up(grant(subscriptions, effects)) == []
    assert subscriptions.is_granted("a")


# Over a restart


def test_a_filter_is_saved_before_it_is_asked_for_the_first_time_until_it_is_given_up() -> None:
    subscriptions = subscriptions_up()
    effects = wanting(subscriptions, "a")
    assert effects[0] == Save(FilterRecord("a"))
    grant(subscriptions, effects)
    subscriptions.close()
    again = subscriptions.open(identifiers_available=True)
    assert saved(again) == []
    grant(subscriptions, again)
    subscriptions.unwant("a")
    (packet,) = only(mqtt5.UnsubscribePacket, subscriptions.advance())
    assert saved(subscriptions.receive_unsuback(packet.packet_id)) == [FilterDeleted("a")]


def test_a_filter_that_is_wanted_again_before_unsuback_stays_saved() -> None:
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, "a"))
    subscriptions.unwant("a")
    (packet,) = only(mqtt5.UnsubscribePacket, subscriptions.advance())
    wanting(subscriptions, "a")
    assert saved(subscriptions.receive_unsuback(packet.packet_id)) == []


def test_what_a_former_life_subscribed_to_is_kept_or_given_up_as_it_is_wanted() -> None:
    subscriptions = Subscriber("")
    subscriptions.want("a/+", 1, retained=True)
    subscriptions.restore(["a/+", "+/b"])
    assert subscriptions.overlapping, "their messages may be copies"
    effects = subscriptions.open(identifiers_available=True)
    assert saved(effects) == []
    assert [name for name, *_ in asked(effects)] == ["a/+", "a/+"]
    answers = grant(subscriptions, effects)
    assert given_up(answers) == ["+/b"]
    (packet,) = only(mqtt5.UnsubscribePacket, answers)
    assert saved(subscriptions.receive_unsuback(packet.packet_id)) == [FilterDeleted("+/b")]
    assert subscriptions.overlapping, "there may be one that was not saved"
    subscriptions.close()
    subscriptions.open(identifiers_available=True, is_resumed=False)
    assert not subscriptions.overlapping


def test_what_a_former_life_had_is_raised_before_what_it_gives_way_to() -> None:
    """It may have ended between the two."""
    subscriptions = Subscriber("")
    subscriptions.want("a/#", 1, retained=False)
    subscriptions.restore(["a/b", "a/+"])
    effects = subscriptions.open(identifiers_available=True)
    assert [name for name, *_ in asked(effects)] == ["a/b", "a/#", "a/#"]
    assert given_up(grant(subscriptions, effects)) == ["a/b", "a/+"]


def test_what_is_not_wanted_any_more_when_the_broker_comes_is_given_up_too() -> None:
    subscriptions = Subscriber("")
    subscriptions.want("a/+", 1, retained=True)
    subscriptions.restore(["a/+"])
    subscriptions.want("a/#", 1, retained=True)
    subscriptions.unwant("a/+")
    assert subscriptions.overlapping, "the broker has both for a while"
    effects = subscriptions.open(identifiers_available=True)
    assert given_up(grant(subscriptions, effects)) == ["a/+"]
