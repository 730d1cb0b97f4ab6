"""What the tests of our subscriptions have in common: wishes, and the broker's answers."""

from __future__ import annotations

import mqtt5

from gateway.core.effects import Save
from gateway.core.events import Output
from gateway.core.mqtt.subscriber import Subscriber
from gateway.core.state_records import Change
from tests.core.mqtt.broker_side import only

Asked = list[tuple[str, int | None, int, bool, int]]


def subscriptions_up(*, identifiers: bool = True) -> Subscriber:
    subscriptions = Subscriber("site/")
    subscriptions.open(identifiers_available=identifiers)
    return subscriptions


def wanting(
    subscriptions: Subscriber, *filters: str, qos: int = 1, retained: bool = True
) -> list[Output]:
    for topic_filter in filters:
        subscriptions.want(topic_filter, qos, retained=retained)
    return subscriptions.advance()


def asked(effects: list[Output]) -> Asked:
    """(filter, identifier, QoS, Retain As Published, Retain Handling) of all SUBSCRIBE packets."""
    return [
        (each.pattern, packet.subscription_id, int(each.max_qos), each.retain_as_published,
         int(each.retain_handling))
        for packet in only(mqtt5.SubscribePacket, effects)
        for each in packet.topic_filters
    ]  # fmt: skip


def saved(effects: list[Output]) -> list[Change]:
    return [each.change for each in effects if isinstance(each, Save)]


def given_up(effects: list[Output]) -> list[str]:
    return [each for packet in only(mqtt5.UnsubscribePacket, effects) for each in packet.patterns]


def grant(subscriptions: Subscriber, effects: list[Output], code: int = 2) -> list[Output]:
    """The broker's answers to all SUBSCRIBE packets."""
    answers: list[Output] = []
    for packet in only(mqtt5.SubscribePacket, effects):
        codes = [code] * len(packet.topic_filters)
        answers += subscriptions.receive_suback(packet.packet_id, codes)
    return answers
