"""At which QoS the broker sends what is published, while our subscription to it changes."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.events import Output
from gateway.core.mqtt import subscriber
from gateway.core.mqtt.subscriber import UNASKED, Subscriber
from tests.core.mqtt.broker_side import only
from tests.core.mqtt.subscribing_stories import grant, subscriptions_up, wanting

TOPIC = "a/b"


def having(qos: int) -> Subscriber:
    """The broker has granted the topic's own filter at this QoS."""
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, TOPIC, qos=qos))
    return subscriptions


def break_off(subscriptions: Subscriber) -> list[Output]:
    subscriptions.close()
    return subscriptions.open(identifiers_available=True)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_it_is_that_of_the_filter_that_is_granted(qos: int) -> None:
    assert having(qos).live_qos(TOPIC, TOPIC) == qos


def test_until_a_higher_one_is_granted_it_is_the_one_before() -> None:
    subscriptions = having(0)
    higher = wanting(subscriptions, TOPIC, qos=1)
    highest = wanting(subscriptions, TOPIC, qos=2)
    grant(subscriptions, higher)
    assert subscriptions.live_qos(TOPIC, TOPIC) == 0
    grant(subscriptions, highest)
    assert subscriptions.live_qos(TOPIC, TOPIC) == 2


def test_until_a_higher_one_is_asked_for_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriber, "ASKED_MAX", 0)
    subscriptions = subscriptions_up()
    assert wanting(subscriptions, TOPIC, qos=0) == []
    monkeypatch.setattr(subscriber, "ASKED_MAX", 2)
    grant(subscriptions, subscriptions.advance())
    monkeypatch.setattr(subscriber, "ASKED_MAX", 0)
    assert wanting(subscriptions, TOPIC, qos=2) == []
    assert subscriptions.live_qos(TOPIC, TOPIC) == 0


def test_a_filter_with_wildcards_brings_all_at_the_highest_before_its_grant_too() -> None:
    subscriptions = subscriptions_up()
    wanting(subscriptions, "a/#", qos=0)
    assert subscriptions.live_qos(TOPIC, "a/#") == 2


def test_until_one_with_wildcards_is_granted_it_is_that_of_what_gives_way() -> None:
    subscriptions = having(1)
    subscriptions.unwant(TOPIC)
    wider = wanting(subscriptions, "a/#", qos=0)
    assert subscriptions.live_qos(TOPIC, "a/#") == 1
    grant(subscriptions, wider)
    assert subscriptions.live_qos(TOPIC, "a/#") == 2


def test_after_a_break_it_is_the_one_before_until_the_grant() -> None:
    subscriptions = having(0)
    subscriptions.close()
    subscriptions.want(TOPIC, 2, retained=True)
    subscriptions.open(identifiers_available=True)
    assert subscriptions.live_qos(TOPIC, TOPIC) == 0
    again = break_off(subscriptions)
    assert subscriptions.live_qos(TOPIC, TOPIC) == 0, "after a second break too"
    grant(subscriptions, again)
    assert subscriptions.live_qos(TOPIC, TOPIC) == 2


def test_a_broker_that_forgot_has_none_from_before() -> None:
    subscriptions = having(0)
    subscriptions.close()
    subscriptions.want(TOPIC, 2, retained=True)
    subscriptions.open(identifiers_available=True)
    subscriptions.close()
    subscriptions.open(identifiers_available=True, is_resumed=False)
    assert subscriptions.live_qos(TOPIC, TOPIC) == 2


def test_a_new_life_knows_what_is_wanted_only() -> None:
    subscriptions = Subscriber("site/")
    subscriptions.want(TOPIC, 1, retained=True)
    subscriptions.restore([TOPIC, "given/up"])
    subscriptions.open(identifiers_available=True)
    assert subscriptions.live_qos(TOPIC, TOPIC) == 1
    assert subscriptions.live_qos("given/up", "given/#") == UNASKED


def test_what_was_given_up_leaves_nothing() -> None:
    subscriptions = having(0)
    subscriptions.close()
    subscriptions.unwant(TOPIC)
    (packet,) = only(mqtt5.UnsubscribePacket, subscriptions.open(identifiers_available=True))
    assert subscriptions._before == {TOPIC: 0}
    subscriptions.receive_unsuback(packet.packet_id)
    assert subscriptions._before == {}
