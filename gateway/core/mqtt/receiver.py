"""Messages from the broker: which are ours, which came before, and which were retained.

Rule 1: what is not acknowledged yet is remembered with its packet id. If the broker sends it again
        in a new connection (the same id and contents; at QoS 1 with DUP) it is acknowledged there,
        and passed on no second time.
Rule 2: a QoS 2 message is passed on once for its packet id, until PUBREL, also over a restart: the
        id is durable before PUBREC, and its end before PUBCOMP. A broker that lost its memory but
        not its session (mosquitto, killed) begins its packet ids again; other contents under a
        known id are therefore another message.

Limit: packet ids are remembered, at most the 65,535 there are; a broker that keeps to our Receive
Maximum stays below RECEIVE_MAX in a connection.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from gateway.core.effects import DeliveryComplete, Save, UpstreamReleaseSaved, WhenSaved
from gateway.core.events import Output
from gateway.core.mqtt.options import RECEIVE_MAX
from gateway.core.mqtt.overlap_dedup import OverlapDedup
from gateway.core.mqtt.subscriber import Subscriber, is_replay
from gateway.core.state_records import PacketDeleted, PacketRecord, PacketsDeleted
from gateway.core.values import Message, Publication, contents_of
from gateway.packets.codec import ReceivedPublish


class Verdict(Enum):
    """What is to be done about a message."""

    NEW = "pass it on"
    COPY = "acknowledge it as any, but pass it on no second time"
    KNOWN = "acknowledge it, which was done before"
    HELD = "nothing: it is acknowledged once the first one is in good hands"


class Receiver:
    def __init__(self, topic_prefix: str, subscriptions: Subscriber) -> None:
        self.connection = 0
        self._prefix = topic_prefix
        self._subscriptions = subscriptions
        self._overlap_dedup = OverlapDedup()
        # QoS 2 messages of former connections and lives, by their checksums.
        self._former_twins = OverlapDedup(RECEIVE_MAX)
        self._open: dict[int, Publication] = {}  # not acknowledged yet, by packet id
        self._unreleased: dict[int, PacketRecord] = {}  # QoS 2, by packet id

    def restore(self, packets: Iterable[PacketRecord]) -> None:
        """QoS 2 messages of a previous run that wait for PUBREL."""
        self._unreleased = {packet.packet_id: packet for packet in packets}
        self._restore_overlap()

    # From the broker

    def receive(self, received: ReceivedPublish) -> tuple[Publication, Verdict]:
        topic, qos, retain = received.topic, received.qos, received.retain
        message = Message(
            topic=topic.removeprefix(self._prefix), payload=received.payload, qos=qos, retain=retain
        )
        replay = is_replay(received.identifiers, retain=retain)
        if retain and len(received.identifiers) > 1:
            # Artemis names each subscription that matches, as it is when the message is sent: the
            # second of a pair for one that was asked for with the first. What is new is passed on
            # to all, live or not.
            replay = replay or self._subscriptions.may_replay
        publication = Publication(message, received.packet_id, replay)
        if received.expiry_s is not None:
            publication.expiry_s = received.expiry_s
        if qos:
            repeated = self._repeated(publication, received)
            if repeated is not None:
                self._is_copy(received, publication)  # its own copies may come yet
                return publication, repeated
        # `site/#` matches `site` too, which is no topic of ours when `site/` is the prefix.
        if not topic.startswith(self._prefix) or len(topic) == len(self._prefix):
            return publication, Verdict.COPY
        return publication, Verdict.COPY if self._is_copy(received, publication) else Verdict.NEW

    def release(self, packet_id: int) -> list[Output]:
        """PUBREL came; PUBCOMP follows once that is durable. An id that we do not know may be one
        whose end is not durable yet, so it waits as well.
        """
        is_known = self._unreleased.pop(packet_id, None) is not None
        complete = WhenSaved([UpstreamReleaseSaved(packet_id, self.connection, is_known)])
        return [Save(PacketDeleted(packet_id)), complete] if is_known else [complete]

    # From the engine

    def keep(self, publication: Publication) -> list[Output]:
        """Save the packet id of a QoS 2 message with its copies; then it is durably accepted.

        Also where it has no copy that is saved: a power cut must not bring it again, behind what
        was published later.
        """
        packet = self._unreleased[publication.packet_id]
        return [Save(packet), WhenSaved([DeliveryComplete(publication)])]

    def may_acknowledge(self, publication: Publication) -> bool:
        """Whether a message durably accepted is to be acknowledged now: once, on its connection."""
        packet_id = publication.packet_id
        if self._open.get(packet_id) is not publication:
            return False
        if publication.connection != self.connection:
            publication.is_safe = True  # the broker sends it again
            return False
        del self._open[packet_id]
        return True

    # From the connection

    def forget_copies(self) -> None:
        self._overlap_dedup.forget()
        self._former_twins.forget()

    def close(self) -> None:
        self.connection += 1
        self._overlap_dedup.forget()
        self._restore_overlap()

    def forget_all(self) -> list[Output]:
        """The broker begins a new session."""
        self.forget_copies()
        self._open.clear()
        if not self._unreleased:
            return []
        self._unreleased.clear()
        return [Save(PacketsDeleted())]

    # Repeats

    def _restore_overlap(self) -> None:
        """The broker does not send again what it need only release, but perhaps its copies."""
        for packet in self._unreleased.values():
            if packet.brought_by:
                self._former_twins.is_one(packet.contents, [packet.brought_by])

    def _is_copy(self, received: ReceivedPublish, publication: Publication) -> bool:
        """Whether it came for another subscription: in this connection, or sent before as well."""
        if publication.is_replay or not self._subscriptions.overlapping:
            return False
        identifiers, message = received.identifiers, publication.message
        if received.is_dup and message.qos == 2:
            contents = contents_of(message.topic, message.payload, 2)
            if self._former_twins.is_one(contents, identifiers):
                return True
        return self._overlap_dedup.is_one((message.topic, message.payload), identifiers)

    def _repeated(self, publication: Publication, received: ReceivedPublish) -> Verdict | None:
        """What it is if it came before; else it is remembered."""
        packet_id, message = publication.packet_id, publication.message
        known = self._open.get(packet_id)
        may_repeat = received.is_dup or message.qos == 2
        if known is not None and may_repeat and _are_alike(known, publication):
            known.connection = self.connection
            if not known.is_safe:
                return Verdict.HELD
            del self._open[packet_id]
            return Verdict.KNOWN
        if message.qos == 2:
            contents = contents_of(message.topic, message.payload, 2)
            unreleased = self._unreleased.get(packet_id)
            if unreleased is not None and unreleased.contents == contents:
                return Verdict.KNOWN
            identifiers = received.identifiers
            brought_by = identifiers[0] if identifiers and not publication.is_replay else 0
            self._unreleased[packet_id] = PacketRecord(packet_id, contents, brought_by)
        publication.connection = self.connection
        self._open[packet_id] = publication
        return None


def _are_alike(one: Publication, other: Publication) -> bool:
    """A broker may say differently of a repeat whether it is retained."""
    first, second = one.message, other.message
    return (first.topic, first.payload, first.qos) == (second.topic, second.payload, second.qos)
