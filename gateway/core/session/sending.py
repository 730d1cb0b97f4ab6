"""The one message that is under way to a client, and those that follow it.

A message goes through the stages that `outbox.Stage` names: our disk where it must be durable
first, REGISTER where its client does not know the name, PUBLISH, and for QoS 2 PUBREL. The rules
are those of `outbound.py`, which says what brings it from one stage to the next.
"""

from __future__ import annotations

from math import inf

from gateway.core.drop_reasons import Reason
from gateway.core.effects import DeliverySaved, Dropped, Send, WhenSaved
from gateway.core.events import Output
from gateway.core.session.egress_budget import (
    PUBREL_BYTES,
    BudgetedSender,
    publish_bytes,
    register_bytes,
)
from gateway.core.session.options import SessionOptions
from gateway.core.session.outbox import (
    NOWHERE,
    PUBCOMP,
    RECEIPT,
    REGACK,
    RELEASING,
    SAVING,
    Outbox,
    Outstanding,
    Queued,
    Stage,
    gone,
    message_id_of,
    publish_frame,
)
from gateway.core.session.topic_registry import Reference, TopicRegistry
from gateway.core.state_records import ClientId
from gateway.core.values import Message, Peer, Publication
from gateway.frames import Pubrel, Register, TopicIdType


class Sending(BudgetedSender):
    """Sends one message after the other, as far as the client listens."""

    __slots__ = (
        "_durable_to", "_outbox", "_restored_to", "_topics", "enough_at", "next_position",
        "outstanding",
    )  # fmt: skip

    def __init__(
        self, topics: TopicRegistry, options: SessionOptions, next_position: int = 0
    ) -> None:
        super().__init__(options)
        self._topics = topics
        self._outbox: Outbox | None = None  # made when needed: it costs 700 bytes
        self._durable_to = NOWHERE  # the highest position that is known to be durable
        self._restored_to = NOWHERE  # the highest one of a former life
        self.next_position = next_position
        self.outstanding: Outstanding | None = None
        self.enough_at = inf  # when a sleeper that fetches gets no more than it asked for

    # What a sleeper asks for

    def begin_fetch(self, now: float) -> None:
        """All that waits now goes to the client, and what comes in the next `awake_s_max`."""
        self.enough_at = now + self._options.awake_s_max
        if self._outbox is not None:
            self._outbox.owe_all()

    def end_fetch(self) -> None:
        """The client sleeps on, or stays."""
        self.enough_at = inf

    def is_enough(self, now: float) -> bool:
        """Whether it has what waited when it asked, and the rest may wait for the next time."""
        if now < self.enough_at or self.outstanding is not None:
            return False
        return self._outbox is None or not self._outbox.owed

    # One message after the other

    def _next(self, client_id: ClientId, peer: Peer, now: float) -> list[Output]:
        """Send from the outbox until something must be acknowledged, or it is enough."""
        effects: list[Output] = []
        while self._outbox and self.outstanding is None and not self.is_enough(now):
            wait_s = 0.0 if self._egress_budget is None else self._egress_budget.wait_s(now)
            if wait_s:
                self.due_at = now + wait_s
                return effects
            queued = self._outbox.take()
            effects += self._start(queued, client_id, peer, now)
        if not self._outbox:
            self._outbox = None
        return effects

    def _start(self, queued: Queued, client_id: ClientId, peer: Peer, now: float) -> list[Output]:
        message = queued.message
        reference = self._topics.reference(message.topic)
        size = publish_bytes(message.payload)
        if reference is not None and message.qos == 0 and self._may_send(size):
            return [Send(peer, publish_frame(message, reference, 0, dup=False))]
        if reference is None:
            obstacle = self._obstacle(message.topic)
            if obstacle is not None:
                return [Dropped(obstacle, client_id, message.topic), *gone(client_id, queued)]
        position = queued.position if message.qos else self._take_position()
        current = self._begin(message, position, queued.publication)
        return self._publish(current, client_id, peer, now)

    def _obstacle(self, topic: str) -> Reason | None:
        """Why a message on a topic without a reference cannot go out."""
        if self._topics.is_refused(topic):
            return Reason.CLIENT_REFUSED
        return Reason.TOPICS_FULL if self._topics.number(topic) is None else None

    def _begin(
        self, message: Message, position: int, publication: Publication | None
    ) -> Outstanding:
        current = Outstanding(
            message=message,
            position=position,
            message_id=message_id_of(position),
            publication=publication,
        )
        current.published = position <= self._restored_to  # perhaps, by a former life
        self.outstanding = current
        return current

    def _send(
        self, current: Outstanding, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        """Send, perhaps once more, what the message under way waits for."""
        if current.stage is RELEASING or current.stage is SAVING:
            self.due_at = inf
            return []
        if current.stage is not PUBCOMP:
            return self._publish(current, client_id, peer, now)
        self.due_at = now + self._options.retry_after_s
        if not self._may_send(PUBREL_BYTES):
            return self._ask(peer, now)
        return [Send(peer, Pubrel(current.message_id))]

    def _publish(
        self, current: Outstanding, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        """Send the message under way, or do what must come before it."""
        message = current.message
        reference = self._topics.reference(message.topic)
        self.due_at = now + self._options.retry_after_s
        if reference is None:
            topic_id = self._topics.number(message.topic)
            assert topic_id is not None, "a message gets under way only with a number for its topic"
            fresh = self._topics.take_fresh(client_id)
            if fresh:
                return fresh + self._save_first(current, client_id)
            current.stage = REGACK
            if not self._may_send(register_bytes(message.topic)):
                return self._ask(peer, now)
            return [Send(peer, Register(topic_id, current.message_id, message.topic.encode()))]
        if message.qos == 2 and current.position > self._durable_to:
            return self._save_first(current, client_id)
        if not self._may_send(publish_bytes(message.payload)):
            return self._ask_about(current, reference, peer, now)
        if message.qos == 0:
            sent = Send(peer, publish_frame(message, reference, 0, dup=False))
            return [sent, *self._finish(client_id, peer, now)]
        current.stage = RECEIPT
        current.reference = reference
        frame = publish_frame(message, reference, current.message_id, dup=current.published)
        current.published = True
        return [Send(peer, frame)]

    def _ask_about(
        self, current: Outstanding, reference: Reference, peer: Peer, now: float
    ) -> list[Output]:
        """Ask for a word by REGISTER of a name that the client knows already, if that fits: all
        clients answer it, and there are some that do not expect PINGREQ from a gateway.
        """
        kind, topic_id = reference
        topic = current.message.topic
        if kind is not TopicIdType.NORMAL or not self._may_ask(register_bytes(topic)):
            return self._ask(peer, now)
        current.stage = REGACK
        return [Send(peer, Register(topic_id, current.message_id, topic.encode()))]

    def _save_first(self, current: Outstanding, client_id: ClientId) -> list[Output]:
        current.stage = SAVING
        self.due_at = inf
        return [WhenSaved([DeliverySaved(client_id, current.position, is_released=False)])]

    def _finish(self, client_id: ClientId, peer: Peer, now: float) -> list[Output]:
        was_listening = self._is_listening
        finished = self.outstanding
        assert finished is not None, "only what is under way is finished"
        self.outstanding = None
        self.due_at = None
        left = gone(client_id, finished)
        if was_listening and self._outbox:
            return self._next(client_id, peer, now) + left
        return left

    @property
    def _is_listening(self) -> bool:
        """Whether more may be sent, said while something is under way."""
        return self.due_at is not None

    def _current(self, stage: Stage, message_id: int) -> Outstanding | None:
        current = self.outstanding
        if current is None or current.stage is not stage or current.message_id != message_id:
            return None
        return current

    def _published(self, message_id: int, qos: int) -> Outstanding | None:
        """What this acknowledges, even if the name had to be registered again since."""
        current = self.outstanding
        if current is None or current.message_id != message_id or current.message.qos != qos:
            return None
        is_received = current.stage is RELEASING or current.stage is PUBCOMP
        return current if current.published and not is_received else None

    def _take_position(self) -> int:
        position = self.next_position
        self.next_position = position + 1
        return position
