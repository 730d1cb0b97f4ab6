"""Messages on their way down: one at a time, in order, each acknowledged before the next.

Rule 1: never more than one unacknowledged message towards a client (microcontroller clients
        assume one). QoS 0 keeps its place in the queue too, so that nothing overtakes on a
        client's air.
Rule 2: a name that the client does not know in this connection is registered first, and the
        message waits for REGACK. A refused name costs its messages only.
Rule 3: what was not acknowledged when a connection ended stays at the head, keeps its message id,
        and goes out with DUP in the next one.

Full: beyond `outbox_messages_max` or `outbox_bytes_max` the oldest message that is not under way
is dropped and counted; the newest command is what a sensor should obey when it returns.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from gateway.effects import ClientId, Dropped, Effect, Message, Peer, Reason, Send
from gateway.frames import Frame, Puback, Publish, Pubrel, Regack, Register, ReturnCode
from gateway.session.rules import SessionRules
from gateway.session.topic_registry import Reference, TopicRegistry

MESSAGE_ID_MAX = 0xFFFF
OVERHEAD_BYTES = 64  # what a queued message costs beside its topic and payload, roughly


class Stage(Enum):
    """What the message under way waits for."""

    REGACK = "REGACK"
    PUBACK = "PUBACK"
    PUBREC = "PUBREC"
    PUBCOMP = "PUBCOMP"


@dataclass(slots=True)
class UnderWay:
    """The one message that a client has not acknowledged yet."""

    message: Message
    stage: Stage
    message_id: int
    published: bool = False  # a PUBLISH went out, so the next one is a repeat
    tries: int = 0
    frame: Frame | None = None


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
        self.due_at: float | None = None  # when to repeat what is under way

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
        return_code = frame.return_code
        current = self._current(Stage.REGACK, frame.message_id)
        if current is None:
            return [Dropped(Reason.OUT_OF_TURN, client_id, "REGACK")]
        if return_code == ReturnCode.CONGESTION:
            return []  # repeated when the retry timer fires
        topic = current.message.topic
        if return_code != ReturnCode.ACCEPTED:
            self._topics.refuse(topic)
            return [
                Dropped(Reason.CLIENT_REFUSED, client_id, f"REGACK {return_code} for {topic!r}"),
                *self._finish(client_id, peer, now),
            ]
        topic_id = self._topics.number(topic)
        assert topic_id is not None, "it was registered with this number"
        self._topics.acknowledge(topic_id)
        return self._publish(current, client_id, peer, now)

    def receive_puback(
        self, frame: Puback, client_id: ClientId, peer: Peer, now: float
    ) -> list[Effect]:
        return_code, message_id = frame.return_code, frame.message_id
        if return_code == ReturnCode.INVALID_TOPIC_ID:
            self._topics.forget(frame.topic_id)
        current = self._current(Stage.PUBACK, message_id)
        if current is None and return_code != ReturnCode.ACCEPTED:
            current = self._current(Stage.PUBREC, message_id)  # errors are PUBACK at any QoS
        if current is None:
            return [Dropped(Reason.OUT_OF_TURN, client_id, f"PUBACK {return_code}")]
        if return_code == ReturnCode.ACCEPTED:
            return self._finish(client_id, peer, now)
        if return_code == ReturnCode.CONGESTION:
            return []  # repeated when the retry timer fires
        if (
            return_code == ReturnCode.INVALID_TOPIC_ID
            and current.tries < self._rules.retry_count_max
        ):
            current.tries += 1  # a client that never learns the id must not keep us busy for ever
            return self._publish(current, client_id, peer, now)
        detail = f"PUBACK {return_code} for {current.message.topic!r}"
        dropped = Dropped(Reason.CLIENT_REFUSED, client_id, detail)
        return [dropped, *self._finish(client_id, peer, now)]

    def receive_pubrec(self, message_id: int, peer: Peer, now: float) -> list[Effect]:
        current = self._current(Stage.PUBREC, message_id)
        if current is not None:
            current.stage = Stage.PUBCOMP
            current.tries = 0
        elif self._current(Stage.PUBCOMP, message_id) is None:
            # Not ours any more, but the client waits for PUBREL: let it finish.
            return [Send(peer, Pubrel(message_id))]
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
        if current.stage is Stage.PUBCOMP:
            self.due_at = now + self._rules.retry_after_s
            return [Send(peer, Pubrel(current.message_id))]
        return self._publish(current, client_id, peer, now)

    def pause(self) -> None:
        """The client does not listen: nothing is repeated until `resume`."""
        self.due_at = None

    def retry(self, peer: Peer, now: float) -> list[Effect] | None:
        """Repeat what is under way; None when it has been repeated often enough."""
        current = self.under_way
        assert current is not None, "the retry timer runs only with a message under way"
        if current.tries >= self._rules.retry_count_max:
            self.due_at = None
            return None
        current.tries += 1
        self.due_at = now + self._rules.retry_after_s
        if current.stage is Stage.PUBCOMP:
            return [Send(peer, Pubrel(current.message_id))]
        assert current.frame is not None, "a REGISTER or PUBLISH was sent"
        if isinstance(current.frame, Publish):
            current.frame.dup = True
        return [Send(peer, current.frame)]

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
        if self._topics.is_refused(message.topic):
            return [Dropped(Reason.CLIENT_REFUSED, client_id, message.topic)]
        reference = self._topics.reference(message.topic)
        if reference is not None and message.qos == 0:
            return [Send(peer, _publish_frame(message, reference, 0, dup=False))]
        if reference is None and self._topics.number(message.topic) is None:
            return [Dropped(Reason.TOPICS_FULL, client_id, message.topic)]
        current = UnderWay(message, Stage.REGACK, self._new_message_id())
        self.under_way = current
        return self._publish(current, client_id, peer, now)

    def _publish(
        self, current: UnderWay, client_id: ClientId, peer: Peer, now: float
    ) -> list[Effect]:
        """Send the message under way, or the REGISTER that must come before it."""
        message = current.message
        reference = self._topics.reference(message.topic)
        if reference is None:
            topic_id = self._topics.number(message.topic)
            assert topic_id is not None, "a message gets under way only with a number for its topic"
            current.stage = Stage.REGACK
            frame: Frame = Register(topic_id, current.message_id, message.topic.encode())
        elif message.qos == 0:
            sent = Send(peer, _publish_frame(message, reference, 0, dup=False))
            return [sent, *self._finish(client_id, peer, now)]
        else:
            current.stage = Stage.PUBACK if message.qos == 1 else Stage.PUBREC
            frame = _publish_frame(message, reference, current.message_id, dup=current.published)
            current.published = True
        current.frame = frame
        self.due_at = now + self._rules.retry_after_s
        return [Send(peer, frame)]

    def _finish(self, client_id: ClientId, peer: Peer, now: float) -> list[Effect]:
        self.under_way = None
        self.due_at = None
        return self._next(client_id, peer, now) if self._outbox else []

    def _current(self, stage: Stage, message_id: int) -> UnderWay | None:
        current = self.under_way
        if current is None or current.stage is not stage or current.message_id != message_id:
            return None
        return current

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
