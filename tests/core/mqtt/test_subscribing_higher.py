"""A filter that is asked for at a higher QoS while the broker has it at a lower one, or will."""

from __future__ import annotations

import pytest

from gateway.core.events import SubscriptionGranted
from gateway.core.mqtt import subscriber
from tests.core.mqtt.broker_side import news
from tests.core.mqtt.subscribing_stories import grant, subscriptions_up, wanting


@pytest.mark.parametrize("first_code", [0, 0x87], ids=["granted at first", "refused at first"])
def test_a_filter_that_is_asked_for_again_at_a_higher_qos_is_granted_at_that(
    first_code: int,
) -> None:
    """What comes before that comes at the lower one."""
    subscriptions = subscriptions_up()
    lower = wanting(subscriptions, "a", qos=0, retained=False)
    higher = wanting(subscriptions, "a", qos=2, retained=False)
    assert grant(subscriptions, lower, first_code) == []
    assert not subscriptions.is_granted("a")
    assert grant(subscriptions, higher) == [SubscriptionGranted("a")]
    assert subscriptions.is_granted("a")


@pytest.mark.parametrize(("code", "late_code"), [(2, 0x87), (0x87, 0)])
def test_an_answer_that_comes_behind_the_one_that_counts_changes_nothing(
    code: int, late_code: int
) -> None:
    subscriptions = subscriptions_up()
    lower = wanting(subscriptions, "a", qos=0, retained=False)
    higher = wanting(subscriptions, "a", qos=2, retained=False)
    grant(subscriptions, higher, code)
    is_granted = subscriptions.is_granted("a")
    assert grant(subscriptions, lower, late_code) == []
    assert subscriptions.is_granted("a") is is_granted is (code == 2)


def test_a_filter_that_is_to_be_asked_for_at_a_higher_qos_is_not_granted_at_the_lower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscriber, "ASKED_MAX", 1)
    subscriptions = subscriptions_up()
    lower = wanting(subscriptions, "a", qos=0, retained=False)
    assert wanting(subscriptions, "a", qos=2, retained=False) == []
    effects = grant(subscriptions, lower)
    assert news(SubscriptionGranted, effects) == []
    assert grant(subscriptions, effects) == [SubscriptionGranted("a")]


def test_one_that_is_granted_is_not_when_a_higher_qos_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscriber, "ASKED_MAX", 1)
    subscriptions = subscriptions_up()
    grant(subscriptions, wanting(subscriptions, "a", qos=0, retained=False))
    other = wanting(subscriptions, "b", qos=0, retained=False)
    assert subscriptions.is_granted("a")
    assert wanting(subscriptions, "a", qos=2, retained=False) == []
    assert not subscriptions.is_granted("a")
    grant(subscriptions, grant(subscriptions, other))
    assert subscriptions.is_granted("a")
