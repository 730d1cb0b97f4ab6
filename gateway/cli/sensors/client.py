"""The MQTT-SN 1.2 client of a simulated sensor: frames and time in, effects out, no I/O.

One client has one topic for its readings and one for its commands. Its conversation is the table
in `client_states`: CONNECT, REGISTER, SUBSCRIBE, then readings one at a time. A request that has
no answer is repeated after T_retry, at most N_retry times (section 6.13). A reading that was not
acknowledged survives a reconnect and goes first, with DUP and the message id it had, so that the
gateway can recognise it.

Limits: `READINGS_WAITING_MAX` readings wait behind the one in flight, then the oldest is dropped;
`TOPICS_MAX` topic ids are learned from the gateway, then REGISTER is refused as congestion.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from random import Random

from gateway.cli.sensors.client_effects import (
    Acknowledged,
    AwayReason,
    Connected,
    Dropped,
    DropReason,
    Effect,
    Left,
    Received,
    Retransmitted,
    Send,
    WentAway,
)
from gateway.cli.sensors.client_states import TRANSITIONS, Input, State
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

ANSWERS: dict[State, tuple[type[Frame], ...]] = {
    State.CONNECTING: (Connack,),
    State.REGISTERING: (Regack,),
    State.SUBSCRIBING: (Suback,),
    State.PUBLISHING: (Puback, Pubrec),
    State.RELEASING: (Pubcomp,),
    State.PINGING: (Pingresp,),
    State.LEAVING: (Disconnect,),
}


class Timer(Enum):
    RETRY = auto()  # when to repeat the open request
    PING = auto()  # when to ask whether the gateway is still there
    RECONNECT = auto()  # when to send CONNECT again


@dataclass(frozen=True, slots=True)
class Pace:
    """How patient the client is.

    The spec recommends 10 to 15 s for T_retry, with radios in mind (section 7.2). Over loopback an
    answer takes milliseconds, and a demo that waits 10 s for a lost datagram looks dead.
    """

    retry_after_s: float = 2.0
    retries_max: int = 4  # N_retry, 3..5
    keep_alive_s: int = 60
    congestion_pause_s: float = 5.0  # T_wait; 5 min in the spec
    reconnect_pause_s: tuple[float, float] = (0.1, 1.0)  # spread, so that a fleet comes in pieces


@dataclass(slots=True)
class Reading:
    """A reading on its way; `sent` and `received` say how far it came before a reconnect."""

    payload: bytes
    message_id: int
    sent: bool = False
    received: bool = False  # PUBREC came: from now on only PUBREL may be repeated


@dataclass(slots=True)
class SensorClient:
    client_id: bytes
    topic: bytes
    command_topic: bytes
    qos: int
    dice: Random
    pace: Pace = field(default_factory=Pace)
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

    # From the device

    def connect(self, now: float) -> list[Effect]:
        self._step(Input.CONNECT)
        connect = Connect(self.client_id, self.pace.keep_alive_s)
        return self._ask(connect, now)

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
            return [Left()]
        return self._ask(Disconnect(), now)

    # From the shell

    def receive(self, frame: Frame, now: float) -> list[Effect]:
        if self.state in (State.AWAY, State.GONE):
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
            case Disconnect() if self.state is not State.LEAVING:
                return self._go_away(AwayReason.TOLD, now)
            case _:
                return self._settle(frame, now)

    def handle_time(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for timer in [timer for timer, at in self.timers.items() if at <= now]:
            if self.timers.pop(timer, None) is not None:  # an earlier one may have cleared it
                effects += self._ring(timer, now)
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
        news: list[Effect] = [Received(name, frame.payload, frame.qos)]
        if frame.qos == 1:
            return [*news, Send(Puback(frame.topic_id, frame.message_id, ReturnCode.ACCEPTED))]
        if frame.qos == 2:
            if frame.message_id in self.releases_awaited:
                news = []
            else:
                self.releases_awaited.append(frame.message_id)
            return [*news, Send(Pubrec(frame.message_id))]
        return news

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

    def _settle(self, frame: Frame, now: float) -> list[Effect]:
        if isinstance(frame, Puback) and frame.return_code == ReturnCode.INVALID_TOPIC_ID:
            return self._topic_unknown(frame, now)
        if not self._is_answer(frame):
            return []  # late, or from a conversation before
        if return_code_of(frame) != ReturnCode.ACCEPTED:
            return self._refused(frame, now)
        self.timers[Timer.PING] = now + self.pace.keep_alive_s / 2
        match frame:
            case Connack():
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
                return [*self._delivered(), *self._answered(None, now), *self._go_on(now)]
            case Pingresp():
                return [*self._answered(None, now), *self._go_on(now)]
            case _:
                self.timers.clear()
                return [*self._answered(None, now), Left()]

    def _is_answer(self, frame: Frame) -> bool:
        expected = isinstance(frame, ANSWERS.get(self.state, ()))
        return expected and message_id_of(frame) == message_id_of(self.request)

    def _answered(self, following: Frame | None, now: float) -> list[Effect]:
        self._step(Input.ANSWERED)
        self._close_request()
        return [] if following is None else self._ask(following, now)

    def _received(self, frame: Pubrec, now: float) -> list[Effect]:
        assert self.in_flight is not None
        self._step(Input.RECEIVED)
        self.in_flight.received = True
        return self._ask(Pubrel(frame.message_id), now)

    def _delivered(self) -> list[Effect]:
        assert self.in_flight is not None
        payload, self.in_flight = self.in_flight.payload, None
        return [Acknowledged(payload)]

    def _refused(self, frame: Frame, now: float) -> list[Effect]:
        if return_code_of(frame) == ReturnCode.CONGESTION:
            self.timers[Timer.RETRY] = now + self.pace.congestion_pause_s
            return []
        if self.state is State.PUBLISHING:
            self.in_flight = None
            dropped: list[Effect] = [Dropped(DropReason.REFUSED)]
            return [*dropped, *self._answered(None, now), *self._go_on(now)]
        return self._go_away(AwayReason.REFUSED, now)

    def _topic_unknown(self, frame: Puback, now: float) -> list[Effect]:
        """The gateway no longer knows our topic id; also the only error that QoS 0 is told."""
        if frame.topic_id != self.topic_id or Input.TOPIC_UNKNOWN not in TRANSITIONS[self.state]:
            return []
        self._step(Input.TOPIC_UNKNOWN)
        if self.in_flight is not None:
            self.in_flight.sent = False  # refused, so the gateway has not seen this message id
        return self._ask(Register(0, self._next_message_id(), self.topic), now)

    # Our own sending

    def _go_on(self, now: float) -> list[Effect]:
        """Send what waits, until a request is open or nothing is left."""
        effects: list[Effect] = []
        while self.state is State.READY and (self.in_flight is not None or self.waiting):
            if self.in_flight is None:
                self.in_flight = self.waiting.popleft()
            effects += self._send_reading(self.in_flight, now)
        return effects

    def _send_reading(self, reading: Reading, now: float) -> list[Effect]:
        if reading.received:
            self._step(Input.RELEASE)
            return self._ask(Pubrel(reading.message_id), now)
        frame = Publish(
            self.topic_id, reading.message_id, reading.payload, qos=self.qos, dup=reading.sent
        )
        if self.qos == 0:
            self.in_flight = None
            return [Send(frame)]
        again: list[Effect] = [Retransmitted(frame)] if reading.sent else []
        reading.sent = True
        self._step(Input.PUBLISH)
        return again + self._ask(frame, now)

    def _ask(self, request: Frame, now: float) -> list[Effect]:
        self.request, self.retries = request, 0
        self.timers[Timer.RETRY] = now + self.pace.retry_after_s
        return [Send(request)]

    def _close_request(self) -> None:
        self.request = None
        self.timers.pop(Timer.RETRY, None)

    # Time

    def _ring(self, timer: Timer, now: float) -> list[Effect]:
        match timer:
            case Timer.RECONNECT:
                return self.connect(now)
            case Timer.PING:
                return self._ping(now)
            case Timer.RETRY:
                return self._repeat(now)

    def _ping(self, now: float) -> list[Effect]:
        self.timers[Timer.PING] = now + self.pace.keep_alive_s / 2
        if self.state is not State.READY:
            return []  # the open request asks the same question
        self._step(Input.PING)
        return self._ask(Pingreq(), now)

    def _repeat(self, now: float) -> list[Effect]:
        assert self.request is not None
        if self.retries >= self.pace.retries_max:
            return self._go_away(AwayReason.SILENCE, now)
        self.retries += 1
        if isinstance(self.request, (Publish, Subscribe)):
            self.request = replace(self.request, dup=True)
        self.timers[Timer.RETRY] = now + self.pace.retry_after_s
        return [Retransmitted(self.request), Send(self.request)]

    def _go_away(self, reason: AwayReason, now: float) -> list[Effect]:
        self._close_request()
        self.timers.clear()
        if self._step(Input.FAILED) is State.GONE:
            return [Left()]
        self.timers[Timer.RECONNECT] = now + self.dice.uniform(*self.pace.reconnect_pause_s)
        return [WentAway(reason)]

    # Helpers

    def _step(self, taken: Input) -> State:
        self.state = TRANSITIONS[self.state][taken]
        return self.state

    def _next_message_id(self) -> int:
        """1 to 65535; 0 means "not relevant" (section 5.3.11)."""
        self.last_message_id = self.last_message_id % 0xFFFF + 1
        return self.last_message_id


def return_code_of(frame: Frame) -> int:
    match frame:
        case Connack() | Regack() | Suback() | Puback():
            return frame.return_code
        case _:
            return ReturnCode.ACCEPTED


def message_id_of(frame: Frame | None) -> int | None:
    """None for the frames that carry none, in a request as in its answer."""
    match frame:
        case Register() | Subscribe() | Publish() | Pubrel():
            return frame.message_id
        case Regack() | Suback() | Puback() | Pubrec() | Pubcomp():
            return frame.message_id
        case _:
            return None
