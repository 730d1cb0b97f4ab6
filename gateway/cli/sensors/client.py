"""The MQTT-SN 1.2 client of a simulated sensor: frames and time in, effects out, no I/O.

One client has one topic for its readings and one for its commands. Its conversation is the table
in `client_states`: CONNECT, REGISTER, SUBSCRIBE, then readings one at a time. A request that has
no answer is repeated after T_retry, at most N_retry times (section 6.13). A reading that was not
acknowledged survives a reconnect and goes first, with DUP and the message id it had, so that the
gateway can recognise it. One that sleeps (`Pace.sleep_s`) sends DISCONNECT with the time, fetches
what came for it by PINGREQ, and comes back by CONNECT when it has a reading (6.14).

A clean client begins and ends without a session. In between it comes back to the one it has: a
gateway that has forgotten what was sent at QoS 2 would take it a second time.

Limits: `READINGS_WAITING_MAX` readings wait behind the one in flight, then the oldest is dropped;
`TOPICS_MAX` topic ids are learned from the gateway, then REGISTER is refused as congestion.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from random import Random

from gateway.cli.sensors.answers import ANSWERS, message_id_of, return_code_of
from gateway.cli.sensors.client_effects import (
    Acknowledged,
    Connected,
    ConversationEnded,
    Dropped,
    DropReason,
    Effect,
    EndReason,
    FellAsleep,
    Finished,
    Received,
    Retransmitted,
    Send,
)
from gateway.cli.sensors.client_states import TRANSITIONS, Input, State
from gateway.cli.sensors.pace import Pace
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
    Suback,
    Subscribe,
    TopicIdType,
)

READINGS_WAITING_MAX = 32  # more than a minute of readings at the default pace
TOPICS_MAX = 16  # what a small sensor would have room for
RELEASES_AWAITED_MAX = 8  # a gateway keeps one QoS 2 message in flight; the rest is generosity


class Timer(Enum):
    RETRY = auto()  # when to repeat the open request
    PING = auto()  # when to ask whether the gateway is still there
    RECONNECT = auto()  # when to send CONNECT again
    SLEEP = auto()  # when to fall asleep, if there is no reading until then
    FETCH = auto()  # when to wake and ask what has come


@dataclass(slots=True)
class Reading:
    """A reading on its way; `sent` and `received` say how far it came before a reconnect."""

    payload: bytes
    message_id: int
    sent: bool = False
    sent_at: float | None = None  # when it went out first
    received: bool = False  # PUBREC came: from now on only PUBREL may be repeated


@dataclass(slots=True)
class SensorClient:
    client_id: bytes
    topic: bytes
    command_topic: bytes
    qos: int
    dice: Random
    pace: Pace = field(default_factory=Pace)
    clean: bool = False  # whether it leaves no session behind
    state: State = field(default=State.AWAY, init=False)
    topic_id: int = field(default=0, init=False)
    names: dict[int, bytes] = field(default_factory=dict, init=False)  # topic ids from the gateway
    waiting: deque[Reading] = field(default_factory=deque, init=False)
    in_flight: Reading | None = field(default=None, init=False)
    request: Frame | None = field(default=None, init=False)
    retries: int = field(default=0, init=False)
    timers: dict[Timer, float] = field(default_factory=dict, init=False)
    releases_awaited: deque[int] = field(
        default_factory=lambda: deque(maxlen=RELEASES_AWAITED_MAX), init=False
    )
    last_message_id: int = field(default=0, init=False)
    conversations: int = field(default=0, init=False)  # that were begun by CONNACK

    @property
    def has_readings(self) -> bool:
        return self.in_flight is not None or bool(self.waiting)

    # From the device

    def connect(self, now: float) -> list[Effect]:
        """Begin a conversation, or wake to go on with the one there is."""
        self._step(Input.CONNECT)
        self.timers.clear()
        is_clean = self.clean and not self.conversations
        connect = Connect(self.client_id, self.pace.keep_alive_s, clean_session=is_clean)
        return self._send_request(connect, now)

    def publish(self, payload: bytes, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if len(self.waiting) >= READINGS_WAITING_MAX:
            self.waiting.popleft()
            effects.append(Dropped(DropReason.QUEUE_FULL))
        self.waiting.append(Reading(payload, self._next_message_id() if self.qos else 0))
        return effects + self._go_on(now)

    def leave(self, now: float) -> list[Effect]:
        """End the conversation; nothing is sent any more but the repeats of DISCONNECT."""
        if self.state in (State.LEAVING, State.GONE):
            return []
        self.timers.clear()
        if self._step(Input.LEAVE) is State.GONE:
            return [Finished()]
        return self._send_request(self._last_request(), now)

    def _last_request(self) -> Frame:
        """The session of several conversations stays, unless a clean one takes its place."""
        if self.clean and self.conversations > 1:
            return Connect(self.client_id, self.pace.keep_alive_s, clean_session=True)
        return Disconnect()

    # From the shell

    def receive(self, frame: Frame, now: float) -> list[Effect]:
        if self.state in (State.AWAY, State.ASLEEP, State.GONE):
            return []
        match frame:
            case Publish():
                return self._take(frame)
            case Pubrel():
                return self._release(frame)
            case Register():
                return [Send(self._learn(frame))]
            case Pingreq():
                return [Send(Pingresp())]
            case Disconnect() if self.state not in (State.DOZING, State.LEAVING):
                return self._end_conversation(EndReason.BY_GATEWAY, now)
            case _:
                return self._on_answer(frame, now)

    def handle_time(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for timer in [timer for timer, at in self.timers.items() if at <= now]:
            if self.timers.pop(timer, None) is not None:  # an earlier one may have cleared it
                effects += self._on_timer(timer, now)
        return effects

    def wake_at(self) -> float | None:
        return min(self.timers.values(), default=None)

    # What the gateway sends of its own

    def _take(self, frame: Publish) -> list[Effect]:
        name = self.names.get(frame.topic_id)
        if frame.topic_id_type is not TopicIdType.NORMAL or name is None:
            return [
                Send(Puback(frame.topic_id, frame.message_id, ReturnCode.INVALID_TOPIC_ID))
            ]  # 6.6
        effects: list[Effect] = [Received(name, frame.payload, frame.qos)]
        if frame.qos == 1:
            return [*effects, Send(Puback(frame.topic_id, frame.message_id, ReturnCode.ACCEPTED))]
        if frame.qos == 2:
            if frame.message_id in self.releases_awaited:
                effects = []
            else:
                self.releases_awaited.append(frame.message_id)
            return [*effects, Send(Pubrec(frame.message_id))]
        return effects

    def _release(self, frame: Pubrel) -> list[Effect]:
        if frame.message_id in self.releases_awaited:
            self.releases_awaited.remove(frame.message_id)
        return [Send(Pubcomp(frame.message_id))]  # unknown ids too: our PUBCOMP may have been lost

    def _learn(self, frame: Register) -> Regack:
        if frame.topic_id not in self.names and len(self.names) >= TOPICS_MAX:
            return Regack(frame.topic_id, frame.message_id, ReturnCode.CONGESTION)
        self.names[frame.topic_id] = frame.topic_name
        return Regack(frame.topic_id, frame.message_id, ReturnCode.ACCEPTED)

    # Answers to the open request

    def _on_answer(self, frame: Frame, now: float) -> list[Effect]:
        if isinstance(frame, Puback) and frame.return_code == ReturnCode.INVALID_TOPIC_ID:
            return self._topic_unknown(frame, now)
        if not self._is_answer(frame):
            return []  # late, or from a conversation before
        if return_code_of(frame) != ReturnCode.ACCEPTED:
            return self._refused(frame, now)
        self.timers[Timer.PING] = now + self.pace.keep_alive_s / 2
        if self.state in (State.DOZING, State.FETCHING):
            return self._fall_asleep(now)
        if self.state in (State.RISING, State.PINGING):
            return [*self._answered(None, now), *self._go_on(now)]
        return self._accepted(frame, now)

    def _accepted(self, frame: Frame, now: float) -> list[Effect]:
        match frame:
            case Connack() if self.state is State.LEAVING:
                self._close_request()
                return self._send_request(Disconnect(), now)
            case Connack():
                self.conversations += 1
                return self._answered(Register(0, self._next_message_id(), self.topic), now)
            case Regack():
                self.topic_id = frame.topic_id
                message_id = self._next_message_id()
                return self._answered(Subscribe(message_id, self.command_topic, self.qos), now)
            case Suback():
                self.names[frame.topic_id] = self.command_topic
                return [*self._answered(None, now), Connected(), *self._go_on(now)]
            case Pubrec():
                return self._received(frame, now)
            case Puback() | Pubcomp():
                return [*self._delivered(now), *self._answered(None, now), *self._go_on(now)]
            case _:
                self.timers.clear()
                return [*self._answered(None, now), Finished()]

    def _is_answer(self, frame: Frame) -> bool:
        expected = isinstance(frame, ANSWERS.get(self.state, ()))
        if self.state is State.LEAVING:
            expected = type(frame) is (Connack if type(self.request) is Connect else Disconnect)
        return expected and message_id_of(frame) == message_id_of(self.request)

    def _answered(self, following: Frame | None, now: float) -> list[Effect]:
        self._step(Input.ANSWERED)
        self._close_request()
        return [] if following is None else self._send_request(following, now)

    def _received(self, frame: Pubrec, now: float) -> list[Effect]:
        assert self.in_flight is not None
        self._step(Input.RECEIVED)
        self.in_flight.received = True
        return self._send_request(Pubrel(frame.message_id), now)

    def _delivered(self, now: float) -> list[Effect]:
        assert self.in_flight is not None
        reading, self.in_flight = self.in_flight, None
        after_s = 0.0 if reading.sent_at is None else now - reading.sent_at
        return [Acknowledged(reading.payload, after_s)]

    def _fall_asleep(self, now: float) -> list[Effect]:
        """Asleep until it is time to fetch; or up again, if there is a reading by now."""
        asleep = self._answered(None, now)
        self.timers.clear()
        self.timers[Timer.FETCH] = now + self.pace.sleep_s * self.pace.wake_after
        return [*asleep, FellAsleep(self.pace.sleep_s), *self._go_on(now)]

    def _refused(self, frame: Frame, now: float) -> list[Effect]:
        if return_code_of(frame) == ReturnCode.CONGESTION:
            self.timers[Timer.RETRY] = now + self.pace.congestion_pause_s
            return []
        if self.state is State.PUBLISHING:
            self.in_flight = None
            dropped: list[Effect] = [Dropped(DropReason.REFUSED)]
            return [*dropped, *self._answered(None, now), *self._go_on(now)]
        return self._end_conversation(EndReason.REFUSED, now)

    def _topic_unknown(self, frame: Puback, now: float) -> list[Effect]:
        """The gateway no longer knows our topic id; also the only error at QoS 0."""
        if frame.topic_id != self.topic_id or Input.TOPIC_UNKNOWN not in TRANSITIONS[self.state]:
            return []
        self._step(Input.TOPIC_UNKNOWN)
        if self.in_flight is not None:
            self.in_flight.sent = False  # refused, so the gateway has not seen this message id
        return self._send_request(Register(0, self._next_message_id(), self.topic), now)

    # Our own sending

    def _go_on(self, now: float) -> list[Effect]:
        """Send what waits, until a request is open or nothing is left."""
        if self.state is State.ASLEEP and self.has_readings:
            return self.connect(now)
        effects: list[Effect] = []
        while self.state is State.READY and self.has_readings:
            if self.in_flight is None:
                self.in_flight = self.waiting.popleft()
            effects += self._send_reading(self.in_flight, now)
        if self.state is State.READY and self.pace.sleep_s:
            self.timers[Timer.SLEEP] = now + self.pace.linger_s
        return effects

    def _send_reading(self, reading: Reading, now: float) -> list[Effect]:
        if reading.received:
            self._step(Input.RELEASE)
            return self._send_request(Pubrel(reading.message_id), now)
        frame = Publish(
            self.topic_id, reading.message_id, reading.payload, qos=self.qos, dup=reading.sent
        )
        if self.qos == 0:
            self.in_flight = None
            return [Send(frame)]
        again: list[Effect] = [Retransmitted(frame)] if reading.sent else []
        reading.sent = True
        if reading.sent_at is None:
            reading.sent_at = now
        self._step(Input.PUBLISH)
        return again + self._send_request(frame, now)

    def _send_request(self, request: Frame, now: float) -> list[Effect]:
        self.request, self.retries = request, 0
        self.timers[Timer.RETRY] = now + self.pace.retry_after_s
        return [Send(request)]

    def _close_request(self) -> None:
        self.request = None
        self.timers.pop(Timer.RETRY, None)

    # Time

    def _on_timer(self, timer: Timer, now: float) -> list[Effect]:
        match timer:
            case Timer.RECONNECT:
                return self.connect(now)
            case Timer.PING:
                return self._ping(now)
            case Timer.RETRY:
                return self._repeat(now)
            case Timer.SLEEP:
                return self._doze(now)
            case Timer.FETCH:
                self._step(Input.FETCH)
                return self._send_request(Pingreq(self.client_id), now)

    def _ping(self, now: float) -> list[Effect]:
        self.timers[Timer.PING] = now + self.pace.keep_alive_s / 2
        if self.state is not State.READY:
            return []  # the open request asks the same question
        self._step(Input.PING)
        return self._send_request(Pingreq(), now)

    def _doze(self, now: float) -> list[Effect]:
        if self.state is not State.READY:
            return []  # it has something to say after all
        self._step(Input.SLEEP)
        self.timers.clear()
        return self._send_request(Disconnect(self.pace.sleep_s), now)

    def _repeat(self, now: float) -> list[Effect]:
        assert self.request is not None
        if self.retries >= self.pace.retries_max:
            return self._end_conversation(EndReason.SILENCE, now)
        self.retries += 1
        if isinstance(self.request, (Publish, Subscribe)):
            self.request = replace(self.request, dup=True)
        self.timers[Timer.RETRY] = now + self.pace.retry_after_s
        return [Retransmitted(self.request), Send(self.request)]

    def _end_conversation(self, reason: EndReason, now: float) -> list[Effect]:
        self._close_request()
        self.timers.clear()
        if self._step(Input.FAILED) is State.GONE:
            return [Finished()]
        self.timers[Timer.RECONNECT] = now + self.dice.uniform(*self.pace.reconnect_pause_s)
        return [ConversationEnded(reason)]

    # Helpers

    def _step(self, taken: Input) -> State:
        self.state = TRANSITIONS[self.state][taken]
        return self.state

    def _next_message_id(self) -> int:
        """1 to 65535; 0 means "not relevant" (section 5.3.11)."""
        self.last_message_id = self.last_message_id % 0xFFFF + 1
        return self.last_message_id
