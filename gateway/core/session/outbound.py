"""Messages on their way down: one at a time, in order, each acknowledged before the next.

Rule 1: never more than one unacknowledged message towards a client (microcontroller clients
        assume one). QoS 0 keeps its place in the queue too, so that nothing overtakes on a
        client's air.
Rule 2: a name that the client does not know in this connection is registered first, and the
        message waits for REGACK. A refused name costs its messages only.
Rule 3: what was not acknowledged when a connection ended stays at the head, keeps its message id,
        and goes out with DUP in the next one. An acknowledgement that comes late, from a client
        that sleeps by now, still counts; what follows waits until the client listens again.
Rule 4: a QoS 1 or 2 message has a position, which no other message of its client ever has, and its
        message id follows from that; so both outlast a restart. It is saved as it comes, or when
        it is not acknowledged soon (`Publication.unsaved`), and gone when it is acknowledged or
        dropped. QoS 1 goes out meanwhile, at worst twice. QoS 2 goes out when it is durable, PUBREL
        when it is durable that the client has received it: a restart in between would else send
        it as new to a client that has done with it.
        A message goes through the stages that `outbox.Stage` names: our disk where it must be
        durable first, REGISTER where its client does not know the name, PUBLISH, and for QoS 2
        PUBREL.
Rule 5: to an address from which nobody has answered goes no more than `egress_budget.py` has. What
        does not fit waits in its place, and REGISTER or PINGREQ asks for a word, `retry_count_max`
        times.
Rule 6: a message whose time is over before a PUBLISH of it went out is dropped and counted. What is
        under way is completed.
Rule 7: what `ROUNDS_MAX` times no repeat of got an answer, though the client was heard again, is
        given up and counted: it must not stand before the others for ever. After the first time
        that REGISTER went unanswered PUBLISH goes out, as the client may know the number.

Full: beyond `outbox_messages_max` or `outbox_bytes_max` a message that is not under way is dropped
and counted, by `when_outbox_full` the oldest (the newest command is what an actuator should obey
when it returns) or the newest (where each one builds on those before). A message
that its client answers with "congestion" or "invalid topic id" is sent again `retry_count_max`
times, then dropped and counted: it must not stand before the others for ever. Beyond
`egress_bytes_per_s_max` QoS 0 is dropped and counted, QoS 1 and 2 wait.
"""

from __future__ import annotations

from math import inf

from gateway.core.access.rules import RECEIVE
from gateway.core.drop_reasons import Reason
from gateway.core.effects import DeliverySaved, Dropped, Save, Send, WhenSaved
from gateway.core.events import Output
from gateway.core.message_expiry import ExpiryClock, is_over
from gateway.core.session.client_queue import POSITIONS_BLOCK, ClientQueue
from gateway.core.session.egress_budget import (
    PUBREL_BYTES,
    publish_bytes,
    register_bytes,
)
from gateway.core.session.options import SessionOptions
from gateway.core.session.outbox import (
    MESSAGE_IDS,
    NOWHERE,
    GivenUp,
    Outbox,
    Outstanding,
    Queued,
    Stage,
    dropped_as_over,
    gone,
    let_go,
    message_id_of,
    publish_frame,
    row,
    saving,
)
from gateway.core.session.topic_registry import Reference, TopicRegistry
from gateway.core.state_records import ClientId, MessageRecord
from gateway.core.values import Message, Peer, Publication
from gateway.frames import (
    Frame,
    Puback,
    Pubcomp,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    ReturnCode,
    TopicIdType,
)

AHEAD_MAX = 0x4000
ROUNDS_MAX = 3
# Ids of so many messages before the next one may be those of copies on their way.
RECENT_IDS = 16
# A client does not ask twice within so many seconds; the network does, by making copies.
ASKED_AGAIN_S = 1.0


class Outbound(ClientQueue):
    """Sends one message after the other, as far as the client listens."""

    __slots__ = ("_topics", "enough_at")

    def __init__(
        self, topics: TopicRegistry, options: SessionOptions, next_position: int = 0
    ) -> None:
        super().__init__(options, next_position)
        self._topics = topics
        self.enough_at = inf  # when a sleeper that fetches gets no more than it asked for

    @property
    def has_timer(self) -> bool:
        """Whether something is sent, once more or for the first time, when that is over."""
        return self.due_at is not None and self.due_at < inf

    # From the broker

    def deliver(
        self,
        message: Message,
        client_id: ClientId,
        peer: Peer,
        now: float,
        publication: Publication | None = None,
    ) -> list[Output]:
        """Send the message now or when its turn comes."""
        egress_budget = self._egress_budget
        if egress_budget is not None and not egress_budget.is_open(now):
            return self._deliver_later(message, client_id, peer, now, publication)
        if self.outstanding is not None or self._outbox:
            return self.keep(message, client_id, now, publication)
        reference = self._topics.reference(message.topic)
        if reference is not None and message.qos == 0:
            if egress_budget is not None:
                egress_budget.take(publish_bytes(message.payload))
            return [Send(peer, publish_frame(message, reference, 0, dup=False))]
        if reference is None:
            obstacle = self._obstacle(message.topic)
            if obstacle is not None:
                dropped = Dropped(obstacle, client_id, message.topic)
                return [dropped, *let_go(client_id, publication)]
        current = self._begin(message, self._take_position(message), publication, now)
        if message.qos == 0:
            return self._publish(current, client_id, peer, now)
        kept = saving(client_id, current)
        if message.qos == 2:
            return kept + self._publish(current, client_id, peer, now)
        return self._publish(current, client_id, peer, now) + kept

    def keep(
        self,
        message: Message,
        client_id: ClientId,
        now: float,
        publication: Publication | None = None,
    ) -> list[Output]:
        """Queue the message behind the others."""
        if self._outbox is None:
            self._outbox = Outbox(self._options)
        effects: list[Output] = []
        queued = Queued(message, NOWHERE, publication)
        if message.qos:
            queued.position = self._take_position(message)
            effects += saving(client_id, queued)
        self._outbox.put(queued)
        over = self._outbox.take_over(now)
        if over:
            effects += dropped_as_over(client_id, over)
        dropped, detail = self._outbox.excess()
        if not dropped:
            return effects
        for superfluous in dropped:
            effects += gone(client_id, superfluous)
        return [Dropped(Reason.OUTBOX_FULL, client_id, detail, count=len(dropped)), *effects]

    def _deliver_later(
        self,
        message: Message,
        client_id: ClientId,
        peer: Peer,
        now: float,
        publication: Publication | None,
    ) -> list[Output]:
        """There is no allowance for it now."""
        if message.qos == 0 and self.is_address_validated:
            detail = f"more than {self._options.egress_bytes_per_s_max} bytes/s"
            return [Dropped(Reason.EGRESS_FULL, client_id, detail)]
        effects = self.keep(message, client_id, now, publication)
        if self.outstanding is None:
            effects += self._next(client_id, peer, now)
        return effects

    # From the client

    def answers(self, frame: Frame) -> bool | None:
        """Whether this acknowledges what is under way, by its message id; None for what does not
        say what it acknowledges, or answers a copy of what was under way a moment ago.
        """
        if not isinstance(frame, Regack | Puback | Pubrec | Pubcomp) or not frame.message_id:
            return None
        message_id = frame.message_id
        if isinstance(frame, Regack | Puback):
            message_id = self._acknowledged_id(frame)
        current = self.outstanding
        if current is not None and current.message_id == message_id:
            return True
        behind = (message_id_of(self.next_position) - message_id) % MESSAGE_IDS
        return None if behind <= RECENT_IDS else False

    def _acknowledged_id(self, frame: Regack | Puback) -> int:
        """The message id of this, also of a client that sends its numbers with the low byte first.

        Only one message is under way, so that is known where both numbers are those of that
        message, swapped. A topic id that reads the same either way shows nothing.
        """
        current = self.outstanding
        topic_id = None if current is None else self._acknowledged_by(current, frame)
        if current is None or topic_id is None or frame.topic_id == topic_id:
            return frame.message_id
        if (_swapped(frame.topic_id), _swapped(frame.message_id)) != (topic_id, current.message_id):
            return frame.message_id
        return current.message_id

    def _acknowledged_by(self, current: Outstanding, frame: Regack | Puback) -> int | None:
        """The topic id that this acknowledgement of the message is to have, if it can be one."""
        if isinstance(frame, Puback):
            return None if current.reference is None else current.reference[1]
        return self._topics.number(current.message.topic) if current.stage is Stage.REGACK else None

    def receive_regack(
        self, frame: Regack, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        current = self._current(Stage.REGACK, self._acknowledged_id(frame))
        if current is None:
            return [Dropped(Reason.OUT_OF_TURN, client_id, "REGACK")]
        topic = current.message.topic
        if frame.return_code == ReturnCode.ACCEPTED:
            self._topics.register(topic)
            return self._go_on_with(current, client_id, peer, now) if self._is_listening else []
        if current.is_congested(frame.return_code, self._options.retry_count_max):
            return []
        self._topics.refuse(topic)
        detail = f"REGACK {frame.return_code} for {topic!r}"
        dropped = Dropped(Reason.CLIENT_REFUSED, client_id, detail)
        return [dropped, *self._finish(client_id, peer, now)]

    def receive_puback(
        self, frame: Puback, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        if frame.return_code == ReturnCode.ACCEPTED:
            if self._published(self._acknowledged_id(frame), 1) is None:
                return [Dropped(Reason.OUT_OF_TURN, client_id, "PUBACK")]
            return self._finish(client_id, peer, now)
        return self._receive_error(frame, client_id, peer, now)

    def receive_pubrec(
        self, message_id: int, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        """PUBREL once that is durable. For what is unknown at once: a client that waits for it
        must be able to finish. To QoS 1 it says the same as PUBACK.
        """
        if self._published(message_id, 1) is not None:
            return [Send(peer, Pubrel(message_id)), *self._finish(client_id, peer, now)]
        current = self._published(message_id, 2)
        if current is None:
            is_recorded_yet = self._current(Stage.RELEASING, message_id) is None
            # A previous run sent it, and that the ones before it are done with was lost with the
            # power: it is told in its turn, or it would come a second time.
            waits = self._outbox is not None and self._outbox.has(message_id, self._restored_to)
            return [Send(peer, Pubrel(message_id))] if is_recorded_yet and not waits else []
        current.stage = Stage.RELEASING
        current.tries = 0
        if self._is_listening:
            self.due_at = inf
        received = row(client_id, current)
        received.is_released = True
        return [
            Save(received),
            WhenSaved([DeliverySaved(client_id, current.position, is_released=True)]),
        ]

    def receive_pubcomp(
        self, message_id: int, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        if self._current(Stage.PUBCOMP, message_id) is None:
            return [Dropped(Reason.OUT_OF_TURN, client_id, "PUBCOMP")]
        return self._finish(client_id, peer, now)

    # From the session

    def resume(self, client_id: ClientId, peer: Peer, now: float) -> list[Output]:
        """The client listens (again): go on with what is under way, or begin."""
        current = self.outstanding
        if current is None:
            self.due_at = None
            return self._next(client_id, peer, now)
        if current.rounds >= ROUNDS_MAX:
            return self._give_up(current, client_id, peer, now)
        current.since = now
        return self._send_anew(current, client_id, peer, now)

    def go_on(self, client_id: ClientId, peer: Peer, now: float) -> list[Output]:
        """Send what waited for `validate_address`, to a client that listens."""
        return self.resume(client_id, peer, now) if self._was_short() else []

    def ask_again(self, client_id: ClientId, peer: Peer, now: float) -> list[Output]:
        """A client that is awake asks for its messages once more: it slept meanwhile, or missed
        what was sent, and shall not have to wait for our timer.
        """
        current = self.outstanding
        sent_at = (inf if self.due_at is None else self.due_at) - self._options.retry_after_s
        if current is None or now < sent_at + ASKED_AGAIN_S:
            return []
        return self._send_anew(current, client_id, peer, now)

    def pause(self) -> None:
        """The client does not listen: nothing is sent until `resume`."""
        self.due_at = None

    def retry(self, client_id: ClientId, peer: Peer, now: float) -> list[Output] | None:
        """Repeat what is under way; None when it has been repeated often enough."""
        current = self.outstanding
        if self._egress_budget is not None and self._egress_budget.is_short:
            return self._ask(peer, now) or None
        # Restored with what waits for its turn, or held back; or too late.
        if current is None or current.is_over(now):
            return self.resume(client_id, peer, now)
        if current.tries >= self._options.retry_count_max:
            return None
        current.tries += 1
        return self._send(current, client_id, peer, now)

    # A client that does not answer

    def client_heard(self, at: float, *, is_here: bool) -> None:
        """The client was heard then; `is_here`: where it may have heard of a number as well."""
        current = self.outstanding
        if (
            current is not None
            and current.ends_round(at)
            and is_here
            and current.stage is Stage.REGACK
        ):
            self._topics.register(current.message.topic)

    def topic_told(self, client_id: ClientId, peer: Peer, now: float) -> list[Output]:
        """The client has heard of a number otherwise: what waits for REGACK of it goes on."""
        current = self.outstanding
        if current is None or current.stage is not Stage.REGACK or not self._is_listening:
            return []
        if self._topics.reference(current.message.topic) is None:
            return []
        return self._go_on_with(current, client_id, peer, now)

    def _give_up(
        self, current: Outstanding, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        """The next one, in its place."""
        if current.stage is Stage.REGACK:
            self._topics.refuse(current.message.topic)  # the next one on it would wait as long
        if self.given_up is None:
            self.given_up = GivenUp()
        self.due_at = now  # it listens
        dropped = self.given_up.add(client_id, current)
        return [dropped, *self._finish(client_id, peer, now)]

    def kept(self, news: DeliverySaved, peer: Peer, now: float) -> list[Output]:
        """What a QoS 2 message waited for is durable."""
        position = news.position
        self._durable_to = max(self._durable_to, position)
        current = self.outstanding
        if current is None or current.position != position:
            return []
        if news.is_released and current.stage is Stage.RELEASING:
            current.stage = Stage.PUBCOMP
            current.since = now
            if self._is_listening:
                self.due_at = now + self._options.retry_after_s
            return [Send(peer, Pubrel(current.message_id))]
        if current.stage is not Stage.SAVING:
            return []
        current.stage = Stage.REGACK  # or what `_publish` finds
        return self._go_on_with(current, news.client_id, peer, now) if self._is_listening else []

    def restore(
        self, saved: list[MessageRecord], next_position: int, expiry_clock: ExpiryClock, now: float
    ) -> None:
        """What a previous run of the gateway left, in order; the first one may have gone out."""
        if saved:
            self._durable_to = self._restored_to = saved[-1].position
            next_position = max(next_position, self._durable_to + 1)
        # Rows that were lost with the power used less than a block. Ids begin anywhere, but ahead:
        # to a client that counts ours, as our firmware does, half of all ids are behind.
        self._next_position = next_position + POSITIONS_BLOCK + self._next_position % AHEAD_MAX
        self._first_position = self._next_position
        for each in saved:
            message = Message(
                topic=each.topic, payload=each.payload, qos=each.qos, retain=each.retain
            )
            if each.expiry is not None:
                message.expiry = expiry_clock.restored(each.expiry, now)
            is_first = self.outstanding is None and self._outbox is None
            if is_first and (each.is_released or self._topics.knows(each.topic)):
                current = self._begin(message, each.position, None, now)
                current.stage = Stage.PUBCOMP if each.is_released else Stage.RECEIPT
                current.reference = self._topics.reference(each.topic)
                continue
            if self._outbox is None:
                self._outbox = Outbox(self._options)
            self._outbox.put(Queued(message, each.position, None))

    def listen_from(self, at: float) -> None:
        """A restored client listens: send what waits for it then."""
        self.due_at = at if self.waiting else None

    # What a client objects to

    def _receive_error(
        self, frame: Puback, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        """A PUBACK that says no: it may come at any QoS, and at any stage of QoS 2 but the last."""
        detail = f"PUBACK {frame.return_code} for topic id {frame.topic_id:#06x}"
        refused = Dropped(Reason.CLIENT_REFUSED, client_id, detail)
        current = self._current(Stage.RECEIPT, self._acknowledged_id(frame))
        if current is None and frame.message_id != 0:
            return [Dropped(Reason.OUT_OF_TURN, client_id, detail)]
        if current is None:  # QoS 0, which is not kept
            if frame.return_code == ReturnCode.INVALID_TOPIC_ID:
                self._topics.forget(frame.topic_id)
            return [refused]
        if current.is_congested(frame.return_code, self._options.retry_count_max):
            return []
        disowned = current.disowned_by(frame.return_code, self._options.retry_count_max)
        if disowned is not None:
            self._topics.forget(disowned)
            if not self._is_listening:
                return []
            return self._publish_if_allowed(current, client_id, peer, now)
        return [refused, *self._finish(client_id, peer, now)]

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
        over: list[Queued] = []
        while self._outbox and self.outstanding is None and not self.is_enough(now):
            if is_over(self._outbox.head.message.expiry, now):
                over.append(self._outbox.take())
                continue
            wait_s = 0.0 if self._egress_budget is None else self._egress_budget.wait_s(now)
            if wait_s:
                self.due_at = now + wait_s
                break
            queued = self._outbox.take()
            effects += self._start(queued, client_id, peer, now)
        if not self._outbox:
            self._outbox = None
        return dropped_as_over(client_id, over) + effects if over else effects

    def _start(self, queued: Queued, client_id: ClientId, peer: Peer, now: float) -> list[Output]:
        message = queued.message
        if self._is_forbidden(message, client_id, peer):
            return self._dropped_as_forbidden(queued, client_id, peer)
        reference = self._topics.reference(message.topic)
        size = publish_bytes(message.payload)
        if reference is not None and message.qos == 0 and self._may_send(size):
            return [Send(peer, publish_frame(message, reference, 0, dup=False))]
        if reference is None:
            obstacle = self._obstacle(message.topic)
            if obstacle is not None:
                return [Dropped(obstacle, client_id, message.topic), *gone(client_id, queued)]
        position = queued.position if message.qos else self._take_position(message)
        current = self._begin(message, position, queued.publication, now)
        current.published |= queued.is_offered
        return self._publish(current, client_id, peer, now)

    def _is_forbidden(self, message: Message, client_id: ClientId, peer: Peer) -> bool:
        access = self._options.access
        return access.rules is not None and access.refuses_delivery(client_id, peer, message.topic)

    def _dropped_as_forbidden(
        self, queued: Queued | Outstanding, client_id: ClientId, peer: Peer
    ) -> list[Output]:
        denied = self._options.access.denied(client_id, peer, RECEIVE, queued.message.topic)
        return [denied, *gone(client_id, queued)]

    def _obstacle(self, topic: str) -> Reason | None:
        """Why a message on a topic without a reference cannot go out."""
        if self._topics.is_refused(topic):
            return Reason.CLIENT_REFUSED
        return self._topics.full_because() if self._topics.number(topic) is None else None

    def _begin(
        self, message: Message, position: int, publication: Publication | None, now: float
    ) -> Outstanding:
        current = Outstanding(
            message=message,
            position=position,
            message_id=message_id_of(position),
            publication=publication,
            since=now,
        )
        current.published = position <= self._restored_to  # perhaps, by a previous run
        self.outstanding = current
        return current

    def _send_anew(
        self, current: Outstanding, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        """With all repeats before it."""
        if current.is_over(now):
            return self._drop_over(current, client_id, peer, now)
        current.tries = 0
        return self._send(current, client_id, peer, now)

    def _send(
        self, current: Outstanding, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        """Send, perhaps once more, what the message under way waits for."""
        if current.stage is Stage.RELEASING or current.stage is Stage.SAVING:
            self.due_at = inf
            return []
        if current.stage is not Stage.PUBCOMP:
            return self._publish_if_allowed(current, client_id, peer, now)
        self.due_at = now + self._options.retry_after_s
        if not self._may_send(PUBREL_BYTES):
            return self._ask(peer, now)
        return [Send(peer, Pubrel(current.message_id))]

    def _go_on_with(
        self, current: Outstanding, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        """What the message under way waited for is done, unless that took too long."""
        if current.is_over(now):
            return self._drop_over(current, client_id, peer, now)
        current.since = now
        current.tries = 0
        return self._publish_if_allowed(current, client_id, peer, now)

    def _publish_if_allowed(
        self, current: Outstanding, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        """Some time after it was begun."""
        if not self._is_forbidden(current.message, client_id, peer):
            return self._publish(current, client_id, peer, now)
        self.outstanding = None
        self.due_at = None
        dropped = self._dropped_as_forbidden(current, client_id, peer)
        return dropped + self._next(client_id, peer, now)

    def _drop_over(
        self, current: Outstanding, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        """The next one, in its place."""
        self.outstanding = None
        self.due_at = None
        dropped = dropped_as_over(client_id, [current])
        return dropped + self._next(client_id, peer, now)

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
            current.stage = Stage.REGACK
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
        current.stage = Stage.RECEIPT
        current.reference = reference
        frame = publish_frame(message, reference, current.message_id, dup=current.published)
        current.published = current.is_under_way = True
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
        current.stage = Stage.REGACK
        return [Send(peer, Register(topic_id, current.message_id, topic.encode()))]

    def _save_first(self, current: Outstanding, client_id: ClientId) -> list[Output]:
        current.stage = Stage.SAVING
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
        is_received = current.stage is Stage.RELEASING or current.stage is Stage.PUBCOMP
        return current if current.published and not is_received else None


def _swapped(number: int) -> int:
    return (number & 0xFF) << 8 | number >> 8
