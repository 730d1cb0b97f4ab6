"""One client's conversation, as a value: frames, messages, receipts and time in; effects out, in
order.

The states and their arrows are in `states.py`, how a client moves along them in `lifecycle.py`.
What goes up is in `inbound.py`, what comes down in `outbound.py`, numbers for topics in
`topic_registry.py`, the will in `will.py`. This file joins them: it decides which frame may come in
which state.

What outlasts a restart is saved as it changes. A frame that stands behind a `Save` in an answer
waits for the disk, one before it does not: so CONNACK of a session that was there and stays,
REGACK, UNSUBACK, the answers to will updates and the one that lets a client sleep wait, and
DISCONNECTs do not. Awake is saved as asleep, so a client that fetches its messages by PINGREQ costs
no write.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from gateway.core.access.rules import SUBSCRIBE, WILL
from gateway.core.drop_reasons import Reason
from gateway.core.effects import DeliverySaved, Dropped, Save, Send
from gateway.core.events import Output, UnsubscribeFrom
from gateway.core.session.lifecycle import ABSENT as ABSENT
from gateway.core.session.lifecycle import LISTENING as LISTENING
from gateway.core.session.lifecycle import PROVEN_AFTER_S, SessionLifecycle
from gateway.core.session.states import ENDED, Input
from gateway.core.session.topic_names import text
from gateway.core.session.will import return_code
from gateway.core.state_records import (
    Exchanges,
    State,
    SubscriptionDeleted,
    SubscriptionRecord,
)
from gateway.core.values import Message, Peer, Publication, Reading, SubscribeTo
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    ReturnCode,
    Subscribe,
    Unsubscribe,
    WillMsg,
    WillMsgReq,
    WillMsgResp,
    WillMsgUpd,
    WillTopic,
    WillTopicReq,
    WillTopicResp,
    WillTopicUpd,
)

CONNECT_HEAD_BYTES = 6
NAMES_IF_SCARCE = 16  # topic names of a client, as many as nearly all sensors have
FEW_READINGS = 4  # at QoS 1 and 2; those of QoS 0 are not counted


class Session(SessionLifecycle):
    """What a client may say and hear, and when."""

    __slots__ = ()

    # From the client

    def receive(self, frame: Frame, now: float) -> list[Output]:
        """Any frame but CONNECT and a PUBLISH with QoS -1, which the engine takes itself."""
        self.last_received_at = now
        state = self.state
        if type(frame) is Publish and state is State.ACTIVE:
            return self.inbound.receive(frame, self.client_id, self.peer, now)
        if state is State.CONNECTING:
            return self._receive_connecting(frame, now)
        if state in ABSENT:
            return self._receive_absent(frame)
        receiver = _RECEIVERS.get(type(frame))
        if receiver is None:
            return self._out_of_turn(frame)
        return self._until_drained(receiver(self, frame, now), now)

    def refuse_name(self, frame: Register, now: float) -> list[Output]:
        """Congestion for one name more than the few that each client may have while memory is
        scarce; nothing for a name that has its number already.
        """
        name = text(frame.topic_name)
        if self.state is not State.ACTIVE or len(self._topics) < NAMES_IF_SCARCE or name is None:
            return []
        if self._topics.has(name):
            return []
        self.last_received_at = now
        detail = f"memory is scarce, and it has {len(self._topics)} topic names"
        refused = Send(self.peer, Regack(0, frame.message_id, ReturnCode.CONGESTION))
        return [Dropped(Reason.MEMORY_SCARCE, self.client_id, detail), refused]

    def connect(self, frame: Connect, peer: Peer, now: float) -> list[Output]:
        """CONNECT, admitted by the engine, which makes a new session for a clean one (1.2, 6.2)."""
        self.outbound.client_heard(self.last_received_at, is_here=False)
        self.last_received_at = now
        is_repeated = self.state is State.CONNECTING and frame.will and peer == self.peer
        self._interrupt(frame, peer)
        self.moved_to(peer, len(frame.client_id) + CONNECT_HEAD_BYTES)
        self.keep_alive_s = frame.duration_s
        asleep = self.state in (State.ASLEEP, State.AWAKE)
        if asleep and not frame.clean_session and not frame.will:
            return self._admit(Input.SIGNAL, now)
        self.clean = frame.clean_session
        effects = self._move(Input.CONNECT)
        if not is_repeated:  # else a copy: WILLMSG may be on its way already
            self._end_connection()
        self._topics.start_connection()
        self.silence_max_s = self._options.patience_s
        if not frame.will:
            return effects + self._admit(Input.ADMITTED, now)
        # If it is where it was it may go on there; else another client may come there.
        left = [] if self._row is None or self._interrupted else self._changed_row()
        return [*effects, Send(peer, WillTopicReq()), *left]

    def address_validated(self, frame: Frame, now: float) -> list[Output]:
        """A frame by which the client is known to be where it is; what waited for that may go."""
        self.outbound.validate_address()
        self.last_received_at = now
        effects = [] if type(frame) is Pingresp else self.receive(frame, now)
        if self.state not in LISTENING:
            return effects
        following = self.outbound.go_on(self.client_id, self.peer, now)
        return self._until_drained(effects + following, now)

    # From the broker

    def deliver(
        self,
        message: Message,
        now: float,
        publication: Publication | None = None,
        *,
        is_held: bool = False,
    ) -> list[Output]:
        """Pass a message on, or keep it for a client that does not listen now.

        `arrived`: what hears of it when the client has acknowledged this copy, or lost it.
        `is_held`: it waits for `kept`, whether the client listens or not.
        """
        if self.state in LISTENING and not is_held:
            effects = self.outbound.deliver(message, self.client_id, self.peer, now, publication)
            if message.qos == 0:
                return effects
        elif message.qos == 0 and self.state in ABSENT:
            return [Dropped(Reason.NOT_CONNECTED, self.client_id)]
        elif message.qos == 0 and self._is_unheard:
            return [Dropped(Reason.ASLEEP, self.client_id)]
        else:
            effects = self.outbound.keep(message, self.client_id, now, publication)
        if self.outbound.next_position > self._saved_positions:
            effects += self._changed_row()
        return effects

    @property
    def _is_unheard(self) -> bool:
        """Whether QoS 0 goes nowhere because the client sleeps."""
        return self.state is State.ASLEEP and not self._options.queues_qos_0_for_sleepers

    # From the engine

    def kept(self, news: DeliverySaved, now: float) -> list[Output]:
        """What a message to this client waited for is durable."""
        effects = self.outbound.kept(news, self.peer, now)
        if self.state in LISTENING and self.outbound.outstanding is None:
            effects += self.outbound.resume(self.client_id, self.peer, now)
        if self.state in ABSENT or self.state is State.CONNECTING:
            return []
        return self._until_drained(effects, now)

    def unacknowledged_but(self, reading: Reading) -> list[Reading]:
        """The other readings whose acknowledgement this client waits for."""
        return [each for each in self.inbound.unacknowledged if each is not reading]

    def acknowledged(self, reading: Reading) -> list[Output]:
        """A reading is in the broker's hands (or on disk): acknowledge it."""
        outputs = self.inbound.acknowledged(reading, self.peer, self.last_received_at)
        former = self.former
        if outputs or former is None or self.is_continued:
            return outputs
        return former.inbound.acknowledged(reading, former.peer, former.last_received_at)

    def refused(self, reading: Reading, return_code: int) -> list[Output]:
        """A reading cannot go on: its sensor keeps it."""
        outputs = self.inbound.refused(reading, return_code, self.peer)
        former = self.former
        if outputs or former is None or self.is_continued:
            return outputs
        return former.inbound.refused(reading, return_code, former.peer)

    def released(self, message_id: int, now: float) -> list[Output]:
        """The answer to `RecordRelease`."""
        return self.inbound.released(message_id, self.peer, now)

    def restore_exchanges(self, exchanges: Exchanges, now: float) -> None:
        """What a previous run of the gateway knew of this client's readings."""
        self.inbound.restore(exchanges, now)

    def asking(self) -> list[SubscribeTo]:
        """The wishes that wait for their answers."""
        return self._subscribing.asking()

    def subscription_row(self, asked: SubscribeTo) -> SubscriptionRecord:
        """What is to be saved before `subscribed` may accept a wish."""
        return self._subscribing.row(asked)

    def subscribed(self, asked: SubscribeTo, return_code: int) -> list[Output]:
        """The answer to `SubscribeTo`."""
        return self._subscribing.subscribed(asked, return_code, self.peer)

    def former_subscription(self, topic_filter: str) -> Output:
        """What is to be saved in place of a wish that was not fulfilled."""
        return self._subscribing.fulfilled(self.client_id, topic_filter)

    def topic_told(self, now: float) -> list[Output]:
        """SUBACK named a topic id, by which a message may go on that waited for REGACK."""
        following = self.outbound.topic_told(self.client_id, self.peer, now)
        return self._until_drained(following, now) if following else []

    def unsubscribed(self, topic_filter: str) -> None:
        """The subscription ended without the client: the broker refuses it from now on."""
        self._subscribing.forget(topic_filter)

    def end_forbidden(self) -> list[Output]:
        """What the client has and may not have by the rules of access, which are others now."""
        access = self._options.access
        effects: list[Output] = []
        if access.is_unknown(self.peer):
            return effects
        for each in list(self._subscribing.filters):
            if access.refuses_subscription(self.client_id, self.peer, each):
                self.unsubscribed(each)
                effects += [
                    access.denied(self.client_id, self.peer, SUBSCRIBE, each),
                    Save(SubscriptionDeleted(self.client_id, each)),
                    UnsubscribeFrom(self.client_id, each),
                ]
        will = self.will
        if will is not None and access.refuses(self.client_id, self.peer, WILL, will.topic):
            self._open_will_handshake().will = None
            effects.append(access.denied(self.client_id, self.peer, WILL, will.topic))
            effects += self._changed_row()
        return effects

    @property
    def is_blank(self) -> bool:
        """Whether a clean CONNECT has begun it and its will handshake is on: it holds nothing."""
        return self.clean and self.state is State.CONNECTING and self.will is None

    def subscribed_elsewhere(self, topic_filter: str, qos: int) -> None:
        """The client has subscribed where it is said to be."""
        self._subscribing.put(topic_filter, qos)

    def return_topics(self) -> None:
        """What is known of topics by now was perhaps not said to this client."""
        self._topics.start_connection()

    @property
    def is_worth_keeping(self) -> bool:
        """Whether its end would cost the client something: subscriptions, messages or a will."""
        waits = self.outbound.waiting > 0 or self._subscribing.is_asking
        return waits or self.will is not None or len(self._subscribing.filters) > 0

    @property
    def is_proven(self) -> bool:
        """Whether it never gives way to a client of another host (`clients/host_quota.py`): it is
        worth keeping, or its client has acknowledged a message, has sent more than a few readings,
        or was heard for longer than `PROVEN_AFTER_S`.
        """
        recent = self.inbound.recent
        return (
            self.is_worth_keeping
            or self.outbound.is_used
            or (recent is not None and len(recent) > FEW_READINGS)
            or self.last_received_at - self.began_at > PROVEN_AFTER_S
        )

    def take_over(self) -> None:
        """It takes the place of one whose client was here, and may not know of it."""
        self._interrupted = ENDED

    def withdraw_wishes(self) -> list[Output]:
        """Nobody answers what it has asked to subscribe to."""
        return self._subscribing.withdraw(self.client_id)

    def end_beside(self, former: Session) -> list[Output]:
        """A session that went on with what its former one has is over, and that one is not."""
        self.outbound.take_back(former.outbound)
        return [*self._unsubscribed(), *self.outbound.end(self.client_id)]

    def _unsubscribed(self) -> list[Output]:
        return [UnsubscribeFrom(self.client_id, each) for each in self._subscribing.filters]

    def end(self) -> list[Output]:
        """The session is over for good: nothing of it stays."""
        effects = self._unsubscribed()
        if self.outbound.waiting:
            count = self.outbound.waiting
            effects.append(Dropped(Reason.SESSION_ENDED, self.client_id, count=count))
        effects += self._gone()
        return effects + self.outbound.end(self.client_id) + self.inbound.end(self.client_id)

    # Frame by frame

    def _receive_connecting(self, frame: Frame, now: float) -> list[Output]:
        match frame:
            case WillTopic():
                return self._receive_will_topic(frame, now)
            case WillMsg() if self._open_will_handshake().is_named:
                refused = self._open_will_handshake().receive_message(frame)
                if refused is not None:
                    return self._refuse(refused, b"")
                return self._admit(Input.ADMITTED, now)
            case Disconnect() if self._interrupted is None or not frame.duration_s:
                return self._receive_disconnect(Disconnect(), now)  # nobody who could sleep yet
        if self._interrupted is None or type(frame) is WillMsg or type(frame) not in _RECEIVERS:
            return self._out_of_turn(frame)
        effects = self._go_on() + self.receive(frame, now)
        return effects + self._send_on(now)

    def _receive_will_topic(self, frame: WillTopic, now: float) -> list[Output]:
        """A copy gets the same answer: that one was lost."""
        refused = self._open_will_handshake().receive_topic(frame, self.client_id, self.peer)
        if refused is not None:
            return self._refuse(refused, frame.topic)
        if not frame.topic:
            return self._admit(Input.ADMITTED, now)
        return [Send(self.peer, WillMsgReq())]

    def _refuse(self, reason: Reason, topic: bytes) -> list[Output]:
        dropped = self._refused_will(reason, topic, "will")
        answer = Send(self.peer, Connack(return_code(reason)))
        return [dropped, answer, *self._leave(Input.REFUSED, f"will refused: {reason.value}")]

    def _refused_will(self, reason: Reason, topic: bytes, detail: str) -> Dropped:
        """`topic`: with FORBIDDEN, which says that it is one."""
        if reason is not Reason.FORBIDDEN:
            return Dropped(reason, self.client_id, detail)
        return self._options.access.denied(self.client_id, self.peer, WILL, topic.decode())

    def _receive_absent(self, frame: Frame) -> list[Output]:
        """Only DISCONNECT tells a client that left to connect again (A4)."""
        dropped = Dropped(Reason.STRANGER, self.client_id, type(frame).__name__.upper())
        return [dropped, Send(self.peer, Disconnect())]

    def _out_of_turn(self, frame: Frame) -> list[Output]:
        return [Dropped(Reason.OUT_OF_TURN, self.client_id, type(frame).__name__.upper())]

    def _receive_publish(self, frame: Publish, now: float) -> list[Output]:
        return self.inbound.receive(frame, self.client_id, self.peer, now)

    def _receive_register(self, frame: Register, now: float) -> list[Output]:
        answer = self.inbound.receive_register(frame, self.client_id, self.peer)
        following = self.outbound.topic_told(self.client_id, self.peer, now)
        return self._topics.take_fresh(self.client_id) + answer + following

    def _receive_regack(self, frame: Regack, now: float) -> list[Output]:
        return self.outbound.receive_regack(frame, self.client_id, self.peer, now)

    def _receive_puback(self, frame: Puback, now: float) -> list[Output]:
        return self.outbound.receive_puback(frame, self.client_id, self.peer, now)

    def _receive_pubrec(self, frame: Pubrec, now: float) -> list[Output]:
        return self.outbound.receive_pubrec(frame.message_id, self.client_id, self.peer, now)

    def _receive_pubcomp(self, frame: Pubcomp, now: float) -> list[Output]:
        return self.outbound.receive_pubcomp(frame.message_id, self.client_id, self.peer, now)

    def _receive_pubrel(self, frame: Pubrel, now: float) -> list[Output]:
        return self.inbound.receive_pubrel(frame.message_id, self.client_id, self.peer, now)

    def _receive_subscribe(self, frame: Subscribe, _now: float) -> list[Output]:
        return self._subscribing.receive_subscribe(frame, self.client_id, self.peer)

    def _receive_unsubscribe(self, frame: Unsubscribe, _now: float) -> list[Output]:
        return self._subscribing.receive_unsubscribe(frame, self.client_id, self.peer)

    def _receive_pingreq(self, frame: Pingreq, now: float) -> list[Output]:
        """A ping is answered here: the broker's health is not the sensor's business (A7)."""
        if frame.client_id and frame.client_id != self.client_id.encode():
            dropped = Dropped(Reason.STRANGER, self.client_id, f"PINGREQ of {frame.client_id!r}")
            return [dropped, Send(self.peer, Disconnect())]
        if self.state is State.AWAKE:  # PINGRESP follows the last acknowledgement
            return self._asked_again(now) if frame.client_id else []
        if self.state is State.ACTIVE and not (frame.client_id and self._may_sleep()):
            current = self.outbound.outstanding
            is_asking = current is not None and (frame.client_id or current.rounds)
            again = self._asked_again(now) if is_asking else []
            return [*again, Send(self.peer, Pingresp())]
        if not frame.client_id:
            return [Send(self.peer, Pingresp())]
        effects = self._wakes_unseen(now) if self.state is State.ACTIVE else self._move(Input.PING)
        self.silence_max_s = inf
        self.outbound.client_heard(now, is_here=True)
        self.outbound.begin_fetch(now)
        return effects + self.outbound.resume(self.client_id, self.peer, now)

    def _may_sleep(self) -> bool:
        """Whether an active client that asks as a sleeper does is one: it has slept before, and a
        late duplicate of its CONNECT came behind its DISCONNECT; or that could not be saved by a
        previous run, as on a full disk.
        """
        return self._is_restored or self.sleep_s > 0

    def _wakes_unseen(self, now: float) -> list[Output]:
        """It sleeps already; for how long is not known."""
        self.outbound.pause()
        self.inbound.rest(now)
        self.sleep_s = max(self.sleep_s, self.keep_alive_s)
        return [*self._move(Input.PING, "it sleeps after all"), *self._changed_row()]

    def _asked_again(self, now: float) -> list[Output]:
        """It listens now. One that is active may take itself for asleep, or else be deaf between
        its pings, and what it has not acknowledged comes to nothing at any other time.
        """
        current = self.outbound.outstanding
        if current is not None and current.is_unanswered(now, self._options.patience_s):
            return self._unanswered(now)
        return self.outbound.ask_again(self.client_id, self.peer, now)

    def _receive_disconnect(self, frame: Disconnect, now: float) -> list[Output]:
        """DISCONNECT is always echoed; with a duration it announces sleep (1.2, 5.4.21, 6.14)."""
        answer = Send(self.peer, Disconnect())
        if not frame.duration_s:
            return [answer, *self._leave(Input.DISCONNECT, "sent DISCONNECT")]
        self.outbound.pause()
        self.inbound.rest(now)
        # To sleep for longer than is known must not be forgotten: it would be lost over it.
        may_sleep = self._saved_state is State.ASLEEP and frame.duration_s <= self.sleep_s
        self.sleep_s = frame.duration_s
        self._supervise(self.sleep_s)
        moved = self._move(Input.SLEEP, f"for {frame.duration_s} s")
        row = self._changed_row()
        return [answer, *moved, *row] if may_sleep else [*row, answer, *moved]

    def _receive_will_topic_upd(self, frame: WillTopicUpd, _now: float) -> list[Output]:
        handshake = self._open_will_handshake()
        refused = handshake.update_topic(frame, self.client_id, self.peer)
        return self._answer_update(refused, WillTopicResp, frame.topic)

    def _receive_will_msg_upd(self, frame: WillMsgUpd, _now: float) -> list[Output]:
        refused = self._open_will_handshake().update_message(frame)
        return self._answer_update(refused, WillMsgResp, b"")

    def _answer_update(
        self,
        refused: Reason | None,
        answer: type[WillTopicResp] | type[WillMsgResp],
        topic: bytes,
    ) -> list[Output]:
        if refused is not None:
            dropped = self._refused_will(refused, topic, "will update")
            return [dropped, Send(self.peer, answer(return_code(refused)))]
        return [*self._changed_row(), Send(self.peer, answer(ReturnCode.ACCEPTED))]

    def _receive_copied_will(self, frame: WillTopic | WillMsg, _now: float) -> list[Output]:
        """A client repeats the end of its handshake when CONNACK was lost (1.2, 6.13)."""
        if self.state is not State.ACTIVE or not self._open_will_handshake().ends_handshake(frame):
            return self._out_of_turn(frame)
        return [Send(self.peer, Connack(ReturnCode.ACCEPTED))]


_RECEIVERS: dict[type, Callable[[Session, Any, float], list[Output]]] = {
    Publish: Session._receive_publish,
    Register: Session._receive_register,
    Regack: Session._receive_regack,
    Puback: Session._receive_puback,
    Pubrec: Session._receive_pubrec,
    Pubcomp: Session._receive_pubcomp,
    Pubrel: Session._receive_pubrel,
    Subscribe: Session._receive_subscribe,
    Unsubscribe: Session._receive_unsubscribe,
    Pingreq: Session._receive_pingreq,
    Disconnect: Session._receive_disconnect,
    WillTopic: Session._receive_copied_will,
    WillMsg: Session._receive_copied_will,
    WillTopicUpd: Session._receive_will_topic_upd,
    WillMsgUpd: Session._receive_will_msg_upd,
}
