"""Who hears what, and that the covering set is the least that brings it, in any order of wishes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.core.downlink import subscriptions as module
from gateway.core.downlink.subscriptions import SubscriptionChange, Subscriptions
from gateway.core.state_records import ClientId, SubscriptionRecord
from tests.core.topics import covers, filters, matches, names

clients = st.sampled_from([ClientId("c1"), ClientId("c2"), ClientId("c3")])
qualities = st.integers(0, 2)


class Wishes(RuleBasedStateMachine):
    """Clients ask, join, withdraw and leave; the model keeps plain sets and looks at all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.subscriptions = Subscriptions()
        self.joined: dict[tuple[ClientId, str], int] = {}
        self.asked: list[tuple[ClientId, str, int]] = []
        self.highest: dict[str, int] = {}  # ever asked for while the filter lives
        self.broker: dict[str, int] = {}  # what the changes, taken in order, leave there

    def take(self, change: SubscriptionChange) -> None:
        self.broker |= change.wanted
        for topic_filter in change.unwanted:
            assert topic_filter not in change.wanted
            del self.broker[topic_filter]
        alive = {topic_filter for _, topic_filter in self.joined}
        alive |= {topic_filter for _, topic_filter, _ in self.asked}
        self.highest = {key: qos for key, qos in self.highest.items() if key in alive}

    @rule(client=clients, topic_filter=filters, qos=qualities)
    def ask(self, client: ClientId, topic_filter: str, qos: int) -> None:
        self.asked.append((client, topic_filter, qos))
        self.highest[topic_filter] = max(qos, self.highest.get(topic_filter, 0))
        self.take(self.subscriptions.ask(topic_filter, qos))

    @rule(which=st.integers(min_value=0))
    def join(self, which: int) -> None:
        if self.asked:
            client, topic_filter, qos = self.asked.pop(which % len(self.asked))
            self.subscriptions.join(client, topic_filter, qos)
            self.joined[client, topic_filter] = qos

    @rule(which=st.integers(min_value=0))
    def withdraw(self, which: int) -> None:
        if self.asked:
            _, topic_filter, _ = self.asked.pop(which % len(self.asked))
            self.take(self.subscriptions.withdraw(topic_filter))

    @rule(which=st.integers(min_value=0))
    def leave(self, which: int) -> None:
        if self.joined:
            client, topic_filter = sorted(self.joined)[which % len(self.joined)]
            del self.joined[client, topic_filter]
            self.take(self.subscriptions.leave(client, topic_filter))

    @rule(client=clients, topic_filter=filters)
    def leave_what_was_never_joined(self, client: ClientId, topic_filter: str) -> None:
        if (client, topic_filter) not in self.joined:
            assert self.subscriptions.leave(client, topic_filter) == SubscriptionChange()

    @invariant()
    def what_was_said_to_the_broker_is_the_covering_set(self) -> None:
        assert self.broker == self.subscriptions.covering
        assert self.subscriptions.covering_count == len(self.broker)
        for topic_filter in {*self.highest, "c"}:
            assert self.subscriptions.cover_qos(topic_filter) == self.broker.get(topic_filter)

    @invariant()
    def the_covering_set_is_exactly_the_widest_filters(self) -> None:
        expected = {
            wide
            for wide in self.highest
            if not any(other != wide and covers(other, wide) for other in self.highest)
        }
        assert set(self.subscriptions.covering) == expected

    @invariant()
    def each_is_subscribed_at_the_highest_quality_that_it_must_bring(self) -> None:
        for wide, qos in self.subscriptions.covering.items():
            least = max(self.highest[narrow] for narrow in self.highest if covers(wide, narrow))
            assert qos >= least

    @invariant()
    def what_is_asked_for_is_covered(self) -> None:
        for topic_filter in self.highest:
            cover = self.subscriptions.cover_of(topic_filter)
            assert cover in self.subscriptions.covering
            assert covers(str(cover), topic_filter)
        assert len(self.subscriptions) == len(self.highest)

    @rule(topic=names)
    def each_client_hears_once_at_its_highest_quality(self, topic: str) -> None:
        best: dict[ClientId, int] = {}
        for (client, topic_filter), qos in self.joined.items():
            if matches(topic_filter, topic):
                best[client] = max(qos, best.get(client, 0))
        heard = self.subscriptions.matching(topic)
        assert sorted(heard) == sorted(best.items())
        assert self.subscriptions.matching(topic) is heard

    @rule(topic_filter=filters)
    def the_subscribers_of_a_filter_are_those_that_joined(self, topic_filter: str) -> None:
        expected = {client for client, joined in self.joined if joined == topic_filter}
        assert set(self.subscriptions.subscribers_of(topic_filter)) == expected


Wishes.TestCase.settings = settings(stateful_step_count=30)
test_the_covering_set_is_right_in_any_order_of_wishes = Wishes.TestCase


def test_a_wider_filter_takes_the_place_of_narrower_ones() -> None:
    subscriptions = Subscriptions()
    subscriptions.ask("a/b", 1)
    subscriptions.ask("a/+", 0)
    assert subscriptions.ask("a/#", 0) == SubscriptionChange({"a/#": 1}, ["a/+"])
    assert subscriptions.withdraw("a/#") == SubscriptionChange({"a/+": 1}, ["a/#"])


def test_a_covered_filter_of_higher_quality_raises_its_cover() -> None:
    subscriptions = Subscriptions()
    subscriptions.ask("a/#", 0)
    assert subscriptions.ask("a/b", 2) == SubscriptionChange({"a/#": 2}, [])
    assert subscriptions.ask("a/c", 1) == SubscriptionChange()


def test_a_covered_filter_comes_and_goes_without_a_word_to_the_broker() -> None:
    subscriptions = Subscriptions()
    subscriptions.ask("a/#", 0)
    assert subscriptions.ask("a/b", 0) == SubscriptionChange()
    assert subscriptions.withdraw("a/b") == SubscriptionChange()
    assert list(subscriptions) == ["a/#"]


@pytest.mark.parametrize("others", [["c2"], ["c2", "c3"]])
def test_who_does_not_hear_by_a_filter_leaves_it_to_the_others(others: list[str]) -> None:
    subscriptions = Subscriptions()
    for other in others:
        subscriptions.ask("a/b", 1)
        subscriptions.join(ClientId(other), "a/b", 1)
    assert subscriptions.leave(ClientId("c1"), "a/b") == SubscriptionChange()
    assert subscriptions.subscribers_of("a/b") == others


@given(st.lists(names, unique=True, min_size=12, max_size=20))
def test_the_memory_of_matches_is_bounded(topics: list[str]) -> None:
    subscriptions = Subscriptions()
    subscriptions.ask("#", 0)
    subscriptions.join(ClientId("c1"), "#", 0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "MATCHES_MAX", 10)
        for topic in topics:
            subscriptions.matching(topic)
            assert len(subscriptions._matches) <= 10
    assert all(subscriptions.matching(topic) == [("c1", 0)] for topic in topics if topic[:1] != "$")


def test_a_filter_of_a_former_life_is_restored_once_at_the_highest_qos() -> None:
    subscriptions = Subscriptions()
    rows = [SubscriptionRecord(ClientId(f"c{qos}"), "a/b", qos) for qos in (1, 2, 0)]
    subscriptions.restore(rows)
    assert dict(subscriptions.matching("a/b")) == {"c0": 0, "c1": 1, "c2": 2}
    assert dict(subscriptions.covering) == {"a/b": 2}
