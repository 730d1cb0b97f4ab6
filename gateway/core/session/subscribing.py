"""What a client asked to hear.

SUBACK waits for the broker's word: `receive_subscribe` answers with `SubscribeTo`, only
`subscribed` with SUBACK. Each wish is answered once, and until then nothing else is done about its
message id or its filter: the client comes again.

What is promised is saved before it is promised: the engine saves a subscription before it lets the
client join, and here the row that goes stands before UNSUBACK.

A client that restarted, or another one at its address, would take the SUBACK of a wish before it
for its own. So a wish is fulfilled without SUBACK once its connection has ended, or when another
one comes under its id.

Full: `subscriptions_max` filters for a client; a further one is answered with congestion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.core.access.rules import SUBSCRIBE
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Save, Send
from gateway.core.events import Output, UnsubscribeFrom
from gateway.core.session.options import SessionOptions
from gateway.core.session.qos_table import QosTable
from gateway.core.session.topic_names import has_wildcard, topic_filter
from gateway.core.session.topic_registry import TOPIC_ID_OCTETS, TopicRegistry
from gateway.core.state_records import ClientId, SubscriptionDeleted, SubscriptionRecord
from gateway.core.values import Peer, SubscribeTo
from gateway.frames import ReturnCode, Suback, Subscribe, TopicIdType, Unsuback, Unsubscribe


@dataclass(slots=True)
class SubscriptionRequest:
    frame: Subscribe
    asked: SubscribeTo
    is_awaited: bool = True  # whether SUBACK would be understood


class Subscribing(QosTable):
    """A client's filters, with the QoS of each, and its wishes for more."""

    __slots__ = ("_options", "_topics", "_wishes")

    def __init__(self, topics: TopicRegistry, options: SessionOptions) -> None:
        super().__init__()
        self._topics = topics
        self._options = options
        self._wishes: dict[int, SubscriptionRequest] | None = None  # while one waits; by message id

    @property
    def filters(self) -> dict[str, int]:
        return dict(self.items())

    # From the client

    def receive_subscribe(self, frame: Subscribe, client_id: ClientId, peer: Peer) -> list[Output]:
        wanted = self._filter_of(frame)
        if self._wishes is not None and frame.message_id in self._wishes:
            wish = self._wishes[frame.message_id]
            wish.is_awaited = _is_copy(frame, wanted, wish)
            return [Dropped(Reason.REPEATED, client_id, "SUBSCRIBE")]
        objection = self._objection(frame, wanted, client_id, peer)
        if objection is not None:
            code, reason = objection
            refusal = Suback(_echoed_id(frame), frame.message_id, code, max(frame.qos, 0))
            if reason is Reason.FORBIDDEN and wanted is not None:
                denied = self._options.access.denied(client_id, peer, SUBSCRIBE, wanted)
                return [denied, Send(peer, refusal)]
            detail = f"SUBSCRIBE to {frame.topic[:64]!r}"
            return [Dropped(reason, client_id, detail), Send(peer, refusal)]
        assert wanted is not None, "no filter is an objection"
        asked = SubscribeTo(
            client_id=client_id, topic_filter=wanted, qos=frame.qos, message_id=frame.message_id
        )
        if self._wishes is None:
            self._wishes = {}
        self._wishes[frame.message_id] = SubscriptionRequest(frame, asked)
        return [*self._topics.take_fresh(client_id), asked]

    def receive_unsubscribe(
        self, frame: Unsubscribe, client_id: ClientId, peer: Peer
    ) -> list[Output]:
        """UNSUBACK whatever was subscribed (A14.7)."""
        answer = Send(peer, Unsuback(frame.message_id))
        wanted = self._filter_of(frame)
        if any(asked.topic_filter == wanted for asked in self.asking()):
            return [Dropped(Reason.OUT_OF_TURN, client_id, "UNSUBSCRIBE before SUBACK")]
        if wanted is None or wanted not in self:
            return [answer]
        self.forget(wanted)
        gone = Save(SubscriptionDeleted(client_id, wanted))
        return [gone, UnsubscribeFrom(client_id, wanted), answer]

    # From the session

    def end_connection(self) -> None:
        for wish in self._wishes.values() if self._wishes is not None else ():
            wish.is_awaited = False

    # From the engine

    @property
    def is_asking(self) -> bool:
        return self._wishes is not None

    def asking(self) -> list[SubscribeTo]:
        """The wishes that wait for their answers."""
        return [] if self._wishes is None else [wish.asked for wish in self._wishes.values()]

    def row(self, asked: SubscribeTo) -> SubscriptionRecord:
        """What a wish is once it is fulfilled, to be saved before that."""
        assert self._wishes is not None, "it waits for its answer"
        frame = self._wishes[asked.message_id].frame
        return SubscriptionRecord(
            client_id=asked.client_id,
            topic_filter=asked.topic_filter,
            qos=asked.qos,
            topic_id_type=int(frame.topic_id_type),
            topic_id=_echoed_id(frame),
        )

    def rows(self, client_id: ClientId, saved: Mapping[str, int] | None = None) -> list[Output]:
        """Of all that was fulfilled, to be saved, but for what is `saved` with the same QoS."""
        saved = saved or {}
        return [
            self._row(client_id, name, qos) for name, qos in self.items() if saved.get(name) != qos
        ]

    def withdraw(self, client_id: ClientId) -> list[Output]:
        """No wish is waited for any more; who wants to be answered asks again. Some of them may be
        saved already: what is to be saved instead.
        """
        wanted = [asked.topic_filter for asked in self.asking()]
        self._wishes = None
        return [self.fulfilled(client_id, name) for name in wanted]

    def fulfilled(self, client_id: ClientId, name: str) -> Save:
        """What is to be saved of a filter that the client may have, in place of a wish for it."""
        qos = self.filters.get(name)
        if qos is None:
            return Save(SubscriptionDeleted(client_id, name))
        return self._row(client_id, name, qos)

    def _row(self, client_id: ClientId, name: str, qos: int) -> Save:
        kind, topic_id = self._topics.spelled(name) or (TopicIdType.NORMAL, 0)
        return Save(SubscriptionRecord(client_id, name, qos, int(kind), topic_id))

    def subscribed(self, asked: SubscribeTo, return_code: int, peer: Peer) -> list[Output]:
        """The answer to `SubscribeTo`."""
        wish = self._answered(asked.message_id)
        frame, topic_id = wish.frame, _echoed_id(wish.frame)
        if return_code == ReturnCode.ACCEPTED:
            self.put(asked.topic_filter, frame.qos)
            topic_id = self._reference(wish, topic_id)
        if not wish.is_awaited:
            return []
        return [Send(peer, Suback(topic_id, asked.message_id, return_code, frame.qos))]

    def forget(self, topic_filter: str) -> None:
        self.pop(topic_filter)
        self._topics.unspell(topic_filter)

    def continue_from(self, former: Subscribing) -> None:
        """What another session of the client hears, this one hears as well."""
        for name, qos in former.items():
            self.put(name, qos)

    def restore(self, saved: list[SubscriptionRecord]) -> None:
        """Subscriptions of a previous run, as the client spelt them."""
        for each in saved:
            self.put(each.topic_filter, each.qos)
            kind = TopicIdType(each.topic_id_type)
            # A predefined id may be another name's since, by the configuration.
            is_known = self._topics.topic_of(each.topic_id, kind) == each.topic_filter
            if kind is not TopicIdType.NORMAL and is_known:
                self._topics.spell(each.topic_filter, (kind, each.topic_id))

    # What waits

    def _answered(self, message_id: int) -> SubscriptionRequest:
        assert self._wishes is not None, "each wish is answered once"
        wish = self._wishes.pop(message_id)
        if not self._wishes:
            self._wishes = None
        return wish

    def _reference(self, wish: SubscriptionRequest, topic_id: int) -> int:
        """How the client will hear of what it subscribed to; 0 for a filter with wildcards."""
        wanted, kind = wish.asked.topic_filter, wish.frame.topic_id_type
        if kind is not TopicIdType.NORMAL:
            self._topics.spell(wanted, (kind, topic_id))
        elif not has_wildcard(wanted):
            self._topics.unspell(wanted)
            if wish.is_awaited:
                number = self._topics.register(wanted)
                assert number is not None, "it had its number when it was asked for"
                return number
        return topic_id

    # What a frame asks for

    def _filter_of(self, frame: Subscribe | Unsubscribe) -> str | None:
        if frame.topic_id_type is TopicIdType.NORMAL:
            return topic_filter(frame.topic, self._options.topic_bytes_max)
        if len(frame.topic) != TOPIC_ID_OCTETS:
            return None
        number = int.from_bytes(frame.topic, "big")
        return self._topics.topic_of(number, frame.topic_id_type)

    def _objection(
        self, frame: Subscribe, wanted: str | None, client_id: ClientId, peer: Peer
    ) -> tuple[ReturnCode, Reason] | None:
        kind = frame.topic_id_type
        if kind is TopicIdType.RESERVED or frame.qos < 0:
            return ReturnCode.NOT_SUPPORTED, Reason.NOT_SUPPORTED
        if wanted is None and kind is TopicIdType.NORMAL:
            return ReturnCode.NOT_SUPPORTED, Reason.BAD_FILTER
        if wanted is None:
            return ReturnCode.INVALID_TOPIC_ID, Reason.UNKNOWN_TOPIC_ID
        if self._options.access.refuses_subscription(client_id, peer, wanted):
            return ReturnCode.NOT_SUPPORTED, Reason.FORBIDDEN
        used = len(self) + len(self._wishes or ())
        if wanted not in self and used >= self._options.subscriptions_max:
            return ReturnCode.CONGESTION, Reason.SUBSCRIPTIONS_FULL
        is_named = kind is TopicIdType.NORMAL and not has_wildcard(wanted)
        if is_named and self._topics.number(wanted) is None:
            return ReturnCode.CONGESTION, self._topics.full_because()
        return None


def _echoed_id(frame: Subscribe) -> int:
    """SUBACK echoes a predefined id or a short name; a name gets its number later (A14.4)."""
    is_id = frame.topic_id_type in (TopicIdType.PREDEFINED, TopicIdType.SHORT)
    if is_id and len(frame.topic) == TOPIC_ID_OCTETS:
        return int.from_bytes(frame.topic, "big")
    return 0


def _is_copy(frame: Subscribe, wanted: str | None, wish: SubscriptionRequest) -> bool:
    alike = (frame.qos, frame.topic_id_type) == (wish.frame.qos, wish.frame.topic_id_type)
    return alike and wanted == wish.asked.topic_filter
