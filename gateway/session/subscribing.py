"""What a client asked to hear.

SUBACK waits for the broker's word: `receive_subscribe` answers with `SubscribeTo`, only
`subscribed` with SUBACK. A SUBSCRIBE that comes again meanwhile is dropped, its answer is on the
way. A wish that the client gave up on (by UNSUBSCRIBE, by another wish under its message id, by
the end of its connection) gets no answer.

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
        self._asked: dict[int, tuple[Subscribe, SubscribeTo]] | None = None  # while one waits
        self.filters: dict[str, int] = {}

    # From the client

    def receive_subscribe(self, frame: Subscribe, client_id: ClientId, peer: Peer) -> list[Effect]:
        wanted = self._filter_of(frame)
        if self._is_copy(frame, wanted):
            return [Dropped(Reason.REPEATED, client_id, "SUBSCRIBE")]
        self._give_up(frame.message_id)
        objection = self._objection(frame, wanted)
        if objection is not None:
            code, reason = objection
            refusal = Suback(_echoed_id(frame), frame.message_id, code, max(frame.qos, 0))
            detail = f"SUBSCRIBE to {frame.topic[:64]!r}"
            return [Dropped(reason, client_id, detail), Send(peer, refusal)]
        assert wanted is not None, "no filter is an objection"
        asked = SubscribeTo(client_id, wanted, frame.qos, frame.message_id)
        if self._asked is None:
            self._asked = {}
        self._asked[frame.message_id] = (frame, asked)
        return [asked]

    def receive_unsubscribe(
        self, frame: Unsubscribe, client_id: ClientId, peer: Peer
    ) -> list[Effect]:
        """UNSUBACK whatever was subscribed (A14.7)."""
        answer = Send(peer, Unsuback(frame.message_id))
        wanted = self._filter_of(frame)
        for _, asked in list((self._asked or {}).values()):
            if asked.topic_filter == wanted:
                self._give_up(asked.message_id)
        if wanted is None or wanted not in self.filters:
            return [answer]
        self.forget(wanted)
        return [UnsubscribeFrom(client_id, wanted), answer]

    # From the session

    def end_connection(self) -> None:
        self._asked = None

    # From the engine

    def is_asking(self, asked: SubscribeTo) -> bool:
        """Whether this very wish still waits for its answer."""
        waiting = None if self._asked is None else self._asked.get(asked.message_id)
        return waiting is not None and waiting[1] is asked

    def subscribed(self, asked: SubscribeTo, return_code: int, peer: Peer) -> list[Effect]:
        """The answer to `SubscribeTo`, for one that `is_asking`."""
        assert self._asked is not None, "it is asking"
        message_id, wanted = asked.message_id, asked.topic_filter
        frame, _ = self._asked[message_id]
        self._give_up(message_id)
        topic_id = _echoed_id(frame)
        if return_code != ReturnCode.ACCEPTED:
            return [Send(peer, Suback(topic_id, message_id, return_code, frame.qos))]
        if frame.topic_id_type is not TopicIdType.NORMAL:
            self._topics.spell(wanted, (frame.topic_id_type, topic_id))
        elif not has_wildcard(wanted):
            self._topics.unspell(wanted)
            registered = self._topics.register(wanted)
            assert registered is not None, "it had its number when it was asked for"
            topic_id = registered
        self.filters[wanted] = frame.qos
        return [Send(peer, Suback(topic_id, message_id, ReturnCode.ACCEPTED, frame.qos))]

    def forget(self, topic_filter: str) -> None:
        self.filters.pop(topic_filter, None)
        self._topics.unspell(topic_filter)

    # What waits

    def _is_copy(self, frame: Subscribe, wanted: str | None) -> bool:
        """The id alone does not tell: a client that restarted counts from 1 again."""
        if self._asked is None or frame.message_id not in self._asked:
            return False
        before, asked = self._asked[frame.message_id]
        alike = before.qos == frame.qos and before.topic_id_type is frame.topic_id_type
        return alike and asked.topic_filter == wanted

    def _give_up(self, message_id: int) -> None:
        if self._asked is not None:
            self._asked.pop(message_id, None)
            if not self._asked:
                self._asked = None

    # What a frame asks for

    def _filter_of(self, frame: Subscribe | Unsubscribe) -> str | None:
        if frame.topic_id_type is TopicIdType.NORMAL:
            return topic_filter(frame.topic, self._rules.topic_bytes_max)
        number = int.from_bytes(frame.topic[:2], "big")
        return self._topics.topic_of(number, frame.topic_id_type)

    def _objection(self, frame: Subscribe, wanted: str | None) -> tuple[ReturnCode, Reason] | None:
        kind = frame.topic_id_type
        if kind is TopicIdType.RESERVED or frame.qos < 0:
            return ReturnCode.NOT_SUPPORTED, Reason.NOT_SUPPORTED
        if wanted is None and kind is TopicIdType.NORMAL:
            return ReturnCode.NOT_SUPPORTED, Reason.BAD_FILTER
        if wanted is None:
            return ReturnCode.INVALID_TOPIC_ID, Reason.UNKNOWN_TOPIC_ID
        used = len(self.filters) + len(self._asked or ())
        if wanted not in self.filters and used >= self._rules.subscriptions_max:
            return ReturnCode.CONGESTION, Reason.SUBSCRIPTIONS_FULL
        is_named = kind is TopicIdType.NORMAL and not has_wildcard(wanted)
        if is_named and self._topics.number(wanted) is None:
            return ReturnCode.CONGESTION, Reason.TOPICS_FULL
        return None


def _echoed_id(frame: Subscribe) -> int:
    """SUBACK echoes a predefined id or a short name; a name gets its number later (A14.4)."""
    if frame.topic_id_type in (TopicIdType.PREDEFINED, TopicIdType.SHORT):
        return int.from_bytes(frame.topic[:2], "big")
    return 0
