"""Wishes in any order: a broker that keeps what it was told, and a message always finds a way."""

from __future__ import annotations

import mqtt5
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.core.events import Output, SubscriptionGranted
from gateway.core.mqtt.subscriber import Subscriber
from gateway.core.state_records import FilterDeleted, FilterRecord
from tests.core.mqtt.broker_side import news, packets
from tests.core.mqtt.subscribing_stories import (
    saved,
)

FILTERS = ("a", "b", "a/#", "+", "a/+", "#")


class Wishes(RuleBasedStateMachine):
    """The broker answers in its own time, the connection breaks, wishes come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.subscriptions = Subscriber("")
        self.wanted: dict[str, int] = {}
        self.granted: set[str] = set()  # and wanted ever since
        self.at_broker: dict[str, int] = {}
        self.saved: set[str] = set()
        self.outstanding: list[object] = []

    def take(self, effects: list[Output]) -> None:
        """The broker hears at once; its answers come later."""
        for change in saved(effects):
            if isinstance(change, FilterRecord):
                self.saved.add(change.topic_filter)
            elif isinstance(change, FilterDeleted):
                self.saved.discard(change.topic_filter)
        self.granted |= {each.topic_filter for each in news(SubscriptionGranted, effects)} & set(
            self.wanted
        )
        for packet in packets(effects):
            self.outstanding.append(packet)
            if isinstance(packet, mqtt5.SubscribePacket):
                for each in packet.topic_filters:
                    self.at_broker[each.pattern] = int(each.max_qos)
            elif isinstance(packet, mqtt5.UnsubscribePacket):
                for pattern in packet.patterns:
                    self.at_broker.pop(pattern, None)

    @rule(topic_filter=st.sampled_from(FILTERS), qos=st.integers(0, 2), retained=st.booleans())
    def want(self, topic_filter: str, qos: int, retained: bool) -> None:
        self.wanted[topic_filter] = max(qos, self.wanted.get(topic_filter, 0))
        self.subscriptions.want(topic_filter, self.wanted[topic_filter], retained=retained)
        self.take(self.subscriptions.advance())

    @rule(topic_filter=st.sampled_from(FILTERS))
    def unwant(self, topic_filter: str) -> None:
        if self.wanted.pop(topic_filter, None) is not None:
            self.granted.discard(topic_filter)
            self.subscriptions.unwant(topic_filter)
            self.take(self.subscriptions.advance())

    @rule(which=st.integers(0, 100))
    def answer(self, which: int) -> None:
        if self.outstanding:
            packet = self.outstanding.pop(which % len(self.outstanding))
            if isinstance(packet, mqtt5.SubscribePacket):
                codes = [2] * len(packet.topic_filters)
                self.take(self.subscriptions.receive_suback(packet.packet_id, codes))
            elif isinstance(packet, mqtt5.UnsubscribePacket):
                self.take(self.subscriptions.receive_unsuback(packet.packet_id))

    @rule(session_present=st.booleans(), identifiers=st.booleans())
    def break_and_open(self, session_present: bool, identifiers: bool) -> None:
        self.subscriptions.close()
        self.outstanding.clear()
        self.granted.clear()
        if not session_present:
            self.at_broker.clear()
        self.take(self.subscriptions.open(identifiers_available=identifiers))

    @rule()
    def answer_everything(self) -> None:
        if not self.subscriptions.is_open:
            return
        while self.outstanding:
            self.answer(0)
        assert set(self.at_broker) == set(self.wanted)
        assert all(self.at_broker[key] >= qos for key, qos in self.wanted.items())
        assert all(self.subscriptions.is_granted(key) for key in self.wanted)

    @invariant()
    def what_the_broker_has_is_saved(self) -> None:
        assert set(self.at_broker) <= self.saved

    @invariant()
    def what_was_granted_and_is_still_wanted_is_subscribed(self) -> None:
        assert self.granted <= set(self.at_broker)


Wishes.TestCase.settings = settings(stateful_step_count=30)
test_the_broker_has_what_is_wanted_whatever_happens_in_between = Wishes.TestCase
