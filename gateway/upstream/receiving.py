"""Messages from the broker: which are ours, which came before, and which were retained.

A QoS 2 message is passed on once for its packet id, until PUBREL. A broker that lost its memory
but not its session (mosquitto, killed) begins its packet ids anew; other contents under a known id
are therefore another message.

Limit: packet ids that wait for PUBREL are at most the 65,535 there are; a broker that keeps to our
Receive Maximum stays below RECEIVE_MAX.
"""

from __future__ import annotations

from collections.abc import Sequence

import mqtt5

from gateway.effects import Arrived, Message
from gateway.upstream.packets import BadPacketError
from gateway.upstream.subscribing import UpstreamSubscriptions, is_replay
from gateway.upstream.twins import Twins

NO_PACKET_ID = 0


class Receiving:
    def __init__(self, topic_prefix: str, subscriptions: UpstreamSubscriptions) -> None:
        self._prefix = topic_prefix
        self._subscriptions = subscriptions
        self._twins = Twins()
        self._unreleased: dict[int, int] = {}  # QoS 2: packet id -> hash of its contents

    def receive(self, packet: mqtt5.PublishPacket) -> tuple[Arrived, bool]:
        """The message, and whether it is to be passed on or only acknowledged."""
        if packet.topic_alias is not None:
            raise BadPacketError("a topic alias, of which we allow none")
        topic, payload, qos = packet.topic, packet.payload, int(packet.qos)
        identifiers = packet.subscription_ids
        message = Message(topic.removeprefix(self._prefix), payload, qos, packet.retain)
        replay = is_replay(identifiers, retain=packet.retain)
        arrived = Arrived(message, packet.packet_id or NO_PACKET_ID, replay)
        if qos == 2 and self._is_repeat(arrived):
            return arrived, False
        if not self._is_ours(topic, identifiers):
            return arrived, False
        if replay or not self._subscriptions.overlapping:
            return arrived, True
        return arrived, not self._twins.is_one(message, identifiers)

    def release(self, packet_id: int) -> bool:
        """PUBREL came. False for an id that we do not know."""
        return self._unreleased.pop(packet_id, None) is not None

    def forget_copies(self) -> None:
        self._twins.forget()

    def forget_all(self) -> None:
        """The broker begins a new session."""
        self._twins.forget()
        self._unreleased.clear()

    def _is_repeat(self, arrived: Arrived) -> bool:
        contents = hash((arrived.message.topic, arrived.message.payload))
        known = self._unreleased.get(arrived.packet_id)
        self._unreleased[arrived.packet_id] = contents
        return known == contents

    def _is_ours(self, topic: str, identifiers: Sequence[int]) -> bool:
        """`site/#` matches `site` too, which is no topic of ours when `site/` is the prefix."""
        if not topic.startswith(self._prefix) or len(topic) == len(self._prefix):
            return False
        return self._subscriptions.are_ours(identifiers)
