"""What a client asked to hear.

SUBACK waits for the broker's word: `receive_subscribe` answers with `SubscribeTo`, only
`subscribed` with SUBACK. A SUBSCRIBE that comes again meanwhile is dropped, its answer is on the
way.

Full: `subscriptions_max` filters for a client; a further one is answered with congestion.
"""

from __future__ import annotations

from gateway.effects import (
    ClientId,
    Dropped,
    Effect,
    Peer,
    Reason,
    Send,
    SubscribeTo,
    UnsubscribeFrom,
)
from gateway.frames import ReturnCode, Suback, Subscribe, TopicIdType, Unsuback, Unsubscribe
from gateway.session.rules import SessionRules
from gateway.session.topic_registry import TopicRegistry
from gateway.session.topic_rules import has_wildcard, topic_filter


class Subscribing:
    __slots__ = ("_asked", "_rules", "_topics", "filters")

    def __init__(self, topics: TopicRegistry, rules: SessionRules) -> None:
        self._topics = topics
        self._rules = rules
        self._asked: dict[int, tuple[Subscribe, SubscribeTo]] = {}
        self.filters: dict[str, int] = {}

    # From the client

    def receive_subscribe(self, frame: Subscribe, client_id: ClientId, peer: Peer) -> list[Effect]:
        if frame.message_id in self._asked:
            return [Dropped(Reason.REPEATED, client_id, "SUBSCRIBE")]
        wanted = self._filter_of(frame)
        code, reason = self._judged(frame, wanted)
        if wanted is None or code is not ReturnCode.ACCEPTED:
            refusal = Suback(_echoed_id(frame), frame.message_id, code, max(frame.qos, 0))
            detail = f"SUBSCRIBE to {frame.topic[:64]!r}"
            return [Dropped(reason, client_id, detail), Send(peer, refusal)]
        asked = SubscribeTo(client_id, wanted, frame.qos, frame.message_id)
        self._asked[frame.message_id] = (frame, asked)
        return [asked]

    def receive_unsubscribe(
        self, frame: Unsubscribe, client_id: ClientId, peer: Peer
    ) -> list[Effect]:
        """UNSUBACK whatever was subscribed (A14.7)."""
        answer = Send(peer, Unsuback(frame.message_id))
        wanted = self._filter_of(frame)
        if wanted is None or wanted not in self.filters:
            return [answer]
        self.forget(wanted)
        return [UnsubscribeFrom(client_id, wanted), answer]

    # From the engine

    def asking(self) -> list[SubscribeTo]:
        """The wishes that wait for their answers."""
        return [asked for _, asked in self._asked.values()]

    def subscribed(self, asked: SubscribeTo, return_code: int, peer: Peer) -> list[Effect]:
        """The answer to `SubscribeTo`."""
        message_id, wanted = asked.message_id, asked.topic_filter
        frame, _ = self._asked.pop(message_id)
        if return_code != ReturnCode.ACCEPTED:
            return [Send(peer, Suback(_echoed_id(frame), message_id, return_code, frame.qos))]
        topic_id = _echoed_id(frame)
        if frame.topic_id_type is not TopicIdType.NORMAL:
            self._topics.spell(wanted, (frame.topic_id_type, topic_id))
        elif not has_wildcard(wanted):
            topic_id = self._topics.register(wanted) or 0
        self.filters[wanted] = frame.qos
        return [Send(peer, Suback(topic_id, message_id, ReturnCode.ACCEPTED, frame.qos))]

    def forget(self, topic_filter: str) -> None:
        self.filters.pop(topic_filter, None)
        self._topics.unspell(topic_filter)

    # What a frame asks for

    def _filter_of(self, frame: Subscribe | Unsubscribe) -> str | None:
        if frame.topic_id_type is TopicIdType.NORMAL:
            return topic_filter(frame.topic, self._rules.topic_bytes_max)
        number = int.from_bytes(frame.topic[:2], "big")
        return self._topics.topic_of(number, frame.topic_id_type)

    def _judged(self, frame: Subscribe, wanted: str | None) -> tuple[ReturnCode, Reason]:
        if frame.topic_id_type is TopicIdType.RESERVED or frame.qos < 0:
            return ReturnCode.NOT_SUPPORTED, Reason.NOT_SUPPORTED
        if wanted is None and frame.topic_id_type is TopicIdType.NORMAL:
            return ReturnCode.NOT_SUPPORTED, Reason.BAD_FILTER
        if wanted is None:
            return ReturnCode.INVALID_TOPIC_ID, Reason.UNKNOWN_TOPIC_ID
        known = wanted in self.filters
        if not known and len(self.filters) + len(self._asked) >= self._rules.subscriptions_max:
            return ReturnCode.CONGESTION, Reason.SUBSCRIPTIONS_FULL
        concrete = frame.topic_id_type is TopicIdType.NORMAL and not has_wildcard(wanted)
        if concrete and self._topics.number(wanted) is None:
            return ReturnCode.CONGESTION, Reason.TOPICS_FULL
        return ReturnCode.ACCEPTED, Reason.NOT_SUPPORTED


def _echoed_id(frame: Subscribe) -> int:
    """SUBACK echoes a predefined id or a short name; a name gets its number later (A14.4)."""
    if frame.topic_id_type in (TopicIdType.PREDEFINED, TopicIdType.SHORT):
        return int.from_bytes(frame.topic[:2], "big")
    return 0
