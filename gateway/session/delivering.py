"""Messages on their way down: one at a time, in order, each acknowledged before the next.

Rule 1: never more than one unacknowledged message towards a client (microcontroller clients
        assume one). QoS 0 keeps its place in the queue too, so that nothing overtakes on a
        client's air.
Rule 2: a name that the client does not know in this connection is registered first, and the
        message waits for REGACK. A refused name costs its messages only.
Rule 3: what was not acknowledged when a connection ended stays at the head, keeps its message id,
        and goes out with DUP in the next one. An acknowledgement that comes late, from a client
        that sleeps by now, still counts; what follows waits until the client listens again.

Full: beyond `outbox_messages_max` or `outbox_bytes_max` the oldest message that is not under way
is dropped and counted; the newest command is what a sensor should obey when it returns. A message
that its client answers with "congestion" or "invalid topic id" is sent again `retry_count_max`
times, then dropped and counted: it must not stand before the others for ever.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from gateway.effects import ClientId, Dropped, Effect, Message, Peer, Reason, Send
from gateway.frames import Puback, Publish, Pubrel, Regack, Register, ReturnCode, TopicIdType
from gateway.session.rules import SessionRules
from gateway.session.topic_registry import Reference, TopicRegistry

MESSAGE_ID_MAX = 0xFFFF
OVERHEAD_BYTES = 64  # what a queued message costs beside its topic and payload, roughly


class Stage(Enum):
    """What the message under way waits for."""

    REGACK = "REGACK"
    RECEIPT = "PUBACK or PUBREC"
    PUBCOMP = "PUBCOMP"


@dataclass(slots=True)
class UnderWay:
    """The one message that a client has not acknowledged yet."""

    message: Message
    stage: Stage
    message_id: int
    published: bool = False  # a PUBLISH went out, so the next one is a repeat
    tries: int = 0  # repeats since the client was last heard about it
    disowned: int = 0  # how often the client did not know the number of its topic
    reference: Reference | None = None  # how the last PUBLISH named the topic


class Delivering:
    __slots__ = (
        "_last_message_id",
        "_outbox",
        "_outbox_bytes",
        "_rules",
        "_topics",
        "due_at",
        "under_way",
    )

    def __init__(self, topics: TopicRegistry, rules: SessionRules) -> None:
        self._topics = topics
        self._rules = rules
        self._outbox: deque[Message] | None = None  # made when needed: a deque costs 600 bytes
        self._outbox_bytes = 0
        self._last_message_id = 0
        self.under_way: UnderWay | None = None
        # When to repeat what is under way; None while the client does not listen.
        self.due_at: float | None = None

    @property
    def waiting(self) -> int:
        """Messages not yet acknowledged, the one under way included."""
        return (len(self._outbox) if self._outbox else 0) + (self.under_way is not None)

    # From the broker

    def deliver(
        self, message: Message, client_id: ClientId, peer: Peer, now: float
    ) -> list[Effect]:
        """Send the message now or when its turn comes."""
        if self.under_way is None and not self._outbox:
            return self._start(message, client_id, peer, now)
        return self.keep(message, client_id)

    def keep(self, message: Message, client_id: ClientId) -> list[Effect]:
        """Queue the message behind the others."""
        if self._outbox is None:
            self._outbox = deque()
        self._outbox.append(message)
        self._outbox_bytes += _cost(message)
        dropped = 0
        while len(self._outbox) > self._rules.outbox_messages_max or (
            self._outbox_bytes > self._rules.outbox_bytes_max and len(self._outbox) > 1
        ):
            self._outbox_bytes -= _cost(self._outbox.popleft())
            dropped += 1
        if not dropped:
            return []
        detail = f"more than {self._rules.outbox_messages_max} messages"
        if len(self._outbox) < self._rules.outbox_messages_max:
            detail = f"more than {self._rules.outbox_bytes_max} bytes"
        return [Dropped(Reason.OUTBOX_FULL, client_id, detail, count=dropped)]

    # From the client

    def receive_regack(
        self, frame: Regack, client_id: ClientId, peer: Peer, now: float
    ) -> list[Effect]:
        current = self._current(Stage.REGACK, frame.message_id)
        if current is None:
            return [Dropped(Reason.OUT_OF_TURN, client_id, "REGACK")]
        topic = current.message.topic
        if frame.return_code == ReturnCode.ACCEPTED:
            self._topics.register(topic)
            return self._publish(current, client_id, peer, now) if self._is_listening else []
        if self._is_congested(current, frame.return_code):
            return []
        self._topics.refuse(topic)
        detail = f"REGACK {frame.return_code} for {topic!r}"
        dropped = Dropped(Reason.CLIENT_REFUSED, client_id, detail)
        return [dropped, *self._finish(client_id, peer, now)]

    def receive_puback(
        self, frame: Puback, client_id: ClientId, peer: Peer, now: float
    ) -> list[Effect]:
        if frame.return_code == ReturnCode.ACCEPTED:
            if self._published(frame.message_id, 1) is None:
                return [Dropped(Reason.OUT_OF_TURN, client_id, "PUBACK")]
            return self._finish(client_id, peer, now)
        return self._receive_error(frame, client_id, peer, now)

    def receive_pubrec(self, message_id: int, peer: Peer, now: float) -> list[Effect]:
        """PUBREL in any case: a client that waits for it must be able to finish."""
        current = self._published(message_id, 2)
        if current is not None:
            current.stage = Stage.PUBCOMP
            current.tries = 0
            if self._is_listening:
                self.due_at = now + self._rules.retry_after_s
        return [Send(peer, Pubrel(message_id))]

    def receive_pubcomp(
        self, message_id: int, client_id: ClientId, peer: Peer, now: float
    ) -> list[Effect]:
        if self._current(Stage.PUBCOMP, message_id) is None:
            return [Dropped(Reason.OUT_OF_TURN, client_id, "PUBCOMP")]
        return self._finish(client_id, peer, now)

    # From the session

    def resume(self, client_id: ClientId, peer: Peer, now: float) -> list[Effect]:
        """The client listens (again): go on with what is under way, or begin."""
        current = self.under_way
        if current is None:
            return self._next(client_id, peer, now)
        current.tries = 0
        return self._send(current, client_id, peer, now)

    def pause(self) -> None:
        """The client does not listen: nothing is sent until `resume`."""
        self.due_at = None

    def retry(self, client_id: ClientId, peer: Peer, now: float) -> list[Effect] | None:
        """Repeat what is under way; None when it has been repeated often enough."""
        current = self.under_way
        assert current is not None, "the retry timer runs only with a message under way"
        if current.tries >= self._rules.retry_count_max:
            return None
        current.tries += 1
        return self._send(current, client_id, peer, now)

    # What a client objects to

    def _receive_error(
        self, frame: Puback, client_id: ClientId, peer: Peer, now: float
    ) -> list[Effect]:
        """A PUBACK that says no: it may come at any QoS, and at any stage of QoS 2 but the last."""
        detail = f"PUBACK {frame.return_code} for topic id {frame.topic_id:#06x}"
        refused = Dropped(Reason.CLIENT_REFUSED, client_id, detail)
        current = self._current(Stage.RECEIPT, frame.message_id)
        if current is None and frame.message_id != 0:
            return [Dropped(Reason.OUT_OF_TURN, client_id, detail)]
        if current is None:  # QoS 0, which is not kept
            if frame.return_code == ReturnCode.INVALID_TOPIC_ID:
                self._topics.forget(frame.topic_id)
            return [refused]
        if self._is_congested(current, frame.return_code):
            return []
        if self._is_unknown(current, frame.return_code):
            return self._publish(current, client_id, peer, now) if self._is_listening else []
        return [refused, *self._finish(client_id, peer, now)]

    def _is_congested(self, current: UnderWay, return_code: int) -> bool:
        """Whether to wait for the retry timer because the client cannot take it just now."""
        if return_code != ReturnCode.CONGESTION:
            return False
        return current.tries < self._rules.retry_count_max

    def _is_unknown(self, current: UnderWay, return_code: int) -> bool:
        """Whether to register again because the client has forgotten the number it was told."""
        if return_code != ReturnCode.INVALID_TOPIC_ID or current.reference is None:
            return False
        kind, topic_id = current.reference
        if kind is not TopicIdType.NORMAL or current.disowned >= self._rules.retry_count_max:
            return False
        current.disowned += 1
        current.tries = 0
        self._topics.forget(topic_id)
        return True

    # One message after the other

    def _next(self, client_id: ClientId, peer: Peer, now: float) -> list[Effect]:
        """Send from the outbox until something must be acknowledged."""
        effects: list[Effect] = []
        while self._outbox and self.under_way is None:
            message = self._outbox.popleft()
            self._outbox_bytes -= _cost(message)
            effects += self._start(message, client_id, peer, now)
        if not self._outbox:
            self._outbox = None
        return effects

    def _start(self, message: Message, client_id: ClientId, peer: Peer, now: float) -> list[Effect]:
        reference = self._topics.reference(message.topic)
        if reference is not None and message.qos == 0:
            return [Send(peer, _publish_frame(message, reference, 0, dup=False))]
        if reference is None:
            if self._topics.is_refused(message.topic):
                return [Dropped(Reason.CLIENT_REFUSED, client_id, message.topic)]
            if self._topics.number(message.topic) is None:
                return [Dropped(Reason.TOPICS_FULL, client_id, message.topic)]
        current = UnderWay(message, Stage.REGACK, self._new_message_id())
        self.under_way = current
        return self._publish(current, client_id, peer, now)

    def _send(self, current: UnderWay, client_id: ClientId, peer: Peer, now: float) -> list[Effect]:
        """Send, perhaps once more, what the message under way waits for."""
        if current.stage is not Stage.PUBCOMP:
            return self._publish(current, client_id, peer, now)
        self.due_at = now + self._rules.retry_after_s
        return [Send(peer, Pubrel(current.message_id))]

    def _publish(
        self, current: UnderWay, client_id: ClientId, peer: Peer, now: float
    ) -> list[Effect]:
        """Send the message under way, or the REGISTER that must come before it."""
        message = current.message
        reference = self._topics.reference(message.topic)
        self.due_at = now + self._rules.retry_after_s
        if reference is None:
            topic_id = self._topics.number(message.topic)
            assert topic_id is not None, "a message gets under way only with a number for its topic"
            current.stage = Stage.REGACK
            return [Send(peer, Register(topic_id, current.message_id, message.topic.encode()))]
        if message.qos == 0:
            sent = Send(peer, _publish_frame(message, reference, 0, dup=False))
            return [sent, *self._finish(client_id, peer, now)]
        current.stage = Stage.RECEIPT
        current.reference = reference
        frame = _publish_frame(message, reference, current.message_id, dup=current.published)
        current.published = True
        return [Send(peer, frame)]

    def _finish(self, client_id: ClientId, peer: Peer, now: float) -> list[Effect]:
        was_listening = self._is_listening
        self.under_way = None
        self.due_at = None
        return self._next(client_id, peer, now) if was_listening and self._outbox else []

    @property
    def _is_listening(self) -> bool:
        """Whether more may be sent, said while something is under way."""
        return self.due_at is not None

    def _current(self, stage: Stage, message_id: int) -> UnderWay | None:
        current = self.under_way
        if current is None or current.stage is not stage or current.message_id != message_id:
            return None
        return current

    def _published(self, message_id: int, qos: int) -> UnderWay | None:
        """What this acknowledges, even if the name had to be registered again since."""
        current = self.under_way
        if current is None or current.message_id != message_id or current.message.qos != qos:
            return None
        return current if current.published and current.stage is not Stage.PUBCOMP else None

    def _new_message_id(self) -> int:
        self._last_message_id = self._last_message_id % MESSAGE_ID_MAX + 1
        return self._last_message_id


def _publish_frame(
    message: Message, reference: Reference, message_id: int, *, dup: bool
) -> Publish:
    kind, topic_id = reference
    return Publish(topic_id, message_id, message.payload, message.qos, message.retain, dup, kind)


def _cost(message: Message) -> int:
    return len(message.payload) + len(message.topic) + OVERHEAD_BYTES
