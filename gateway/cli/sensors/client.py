"""The MQTT-SN client of a simulated sensor: datagrams and time in, effects out, no I/O.

It is the library of the nodes, with what an application adds to it: which request is next. The
library writes and reads the frames, has one request open at a time, repeats it after T_retry, at
most N_retry times (section 6.13), and knows repeated messages of QoS 2. The order is: CONNECT,
SUBSCRIBE to the topic for commands, then readings one at a time, the first behind a REGISTER. A
reading that was not acknowledged survives a reconnect and goes first, with DUP and the message id
it had, so that the gateway can recognise it. One that sleeps (`Pace.sleep_s`) sends DISCONNECT with
the time, fetches what came for it by PINGREQ, and comes back by CONNECT when it has a reading
(6.14).

A clean client begins and ends without a session. In between it comes back to the one it has: a
gateway that has forgotten what was sent at QoS 2 would take it a second time.

Limits: `READINGS_WAITING_MAX` readings wait behind the one in flight, then the oldest is dropped;
the library learns 16 topic ids, and forgets one when there is another.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random

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
from gateway.cli.sensors.library import Engine
from gateway.cli.sensors.pace import Pace
from gateway.frames import Disconnect, Pingreq, Pingresp, ReturnCode

READINGS_WAITING_MAX = 32  # more than a minute of readings at the default pace
FRAME_BYTES = 256  # grows for a longer reading
PUBLISH_BYTES = 9  # of a PUBLISH of more than 255 bytes, without its payload
CLEAN_SESSION = 0x04
SILENCE, LOST = -1, -2  # codes of the library: no answer, and DISCONNECT of the gateway
# The library reads a few bytes behind a short frame. One buffer serves all sensors: none of them
# keeps what is in it.
RECEIVED = bytearray(65_536)


class State(Enum):
    """What the open request is for, where one is open.

    A client that gets DISCONNECT, or no answer after N_retry, is AWAY and starts again with
    CONNECT. One that is ASLEEP has its radio off: it receives nothing.
    """

    AWAY = auto()  # not started, or pausing before the next CONNECT
    CONNECTING = auto()
    SUBSCRIBING = auto()
    READY = auto()  # nothing is asked, or whether the gateway is there
    PUBLISHING = auto()
    DOZING = auto()  # its own DISCONNECT with a duration is on its way
    ASLEEP = auto()
    FETCHING = auto()  # woke by PINGREQ; PINGRESP comes behind what waited (6.14)
    RISING = auto()  # woke by CONNECT; its topic ids still hold
    LEAVING = auto()
    GONE = auto()


RADIO_OFF = (State.AWAY, State.ASLEEP, State.GONE)


@dataclass(slots=True)
class Reading:
    payload: bytes
    sent_at: float | None = None  # when it went out first


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
    engine: Engine = field(init=False)
    waiting: deque[Reading] = field(default_factory=deque, init=False)
    in_flight: Reading | None = field(default=None, init=False)
    conversations: int = field(default=0, init=False)  # that were begun by CONNACK
    # When to go on: to connect or to repeat what met congestion; READY, to sleep; ASLEEP, to fetch.
    alarm: float | None = field(default=None, init=False)
    _is_publish: bool = field(default=False, init=False)  # else REGISTER, before it
    _is_again: bool = field(default=False, init=False)  # a reading that was sent before
    _ticked_ms: int = field(default=0, init=False)  # up to when the library knows the time
    _received_at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.engine = Engine(self.client_id, bytearray(FRAME_BYTES), self.dice.getrandbits)
        self.engine.keep_alive_s = self.pace.keep_alive_s
        self.engine.retry_ms = round(1000 * self.pace.retry_after_s)
        self.engine.retries = self.pace.retries_max

    @property
    def has_readings(self) -> bool:
        return self.in_flight is not None or bool(self.waiting)

    # From the device

    def connect(self, now: float) -> list[Effect]:
        """Begin a conversation, or wake to go on with the one there is."""
        self._ask_again(State.RISING if self.state is State.ASLEEP else State.CONNECTING)
        return self._go_on(now)

    def publish(self, payload: bytes, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if len(self.waiting) >= READINGS_WAITING_MAX:
            self.waiting.popleft()
            effects.append(Dropped(DropReason.QUEUE_FULL))
        self.waiting.append(Reading(payload))
        if self.state is State.ASLEEP:
            return effects + self.connect(now)
        return effects + self._go_on(now)

    def leave(self, now: float) -> list[Effect]:
        """End the conversation; nothing is sent any more but the repeats of DISCONNECT."""
        if self.state in (State.LEAVING, State.GONE):
            return []
        if self.state is State.AWAY:
            return self._end()
        if self.clean and self.conversations > 1:
            # The session of several conversations stays, unless a clean one takes its place.
            self.engine.close(LOST)
            self.engine.flags = CLEAN_SESSION
            self.engine.connect()
        else:
            self.engine.open(Disconnect.KIND, Disconnect.KIND, 0, 0, b"")
        self.state, self.alarm = State.LEAVING, None
        return self._go_on(now)

    # From the shell

    def receive(self, datagram: bytes, now: float) -> list[Effect]:
        if self.state in RADIO_OFF:
            return []
        engine, effects = self.engine, list[Effect]()
        self._received_at = now
        RECEIVED[: len(datagram)] = datagram
        at = engine.receive(RECEIVED, len(datagram))
        if at:
            effects.append(Received(engine.topic, bytes(RECEIVED[at : engine.end])))
        if engine.answer_size > 0:
            effects.append(Send(bytes(engine.answer[: engine.answer_size])))
        engine.answer_size = 0
        return effects + self._go_on(now)

    def handle_time(self, now: float) -> list[Effect]:
        if self.alarm is not None and self.alarm <= now and not self.engine.size:
            self.alarm = None
            match self.state:
                case State.READY:
                    self._open_sleep(State.DOZING)
                case State.ASLEEP:
                    self._open_sleep(State.FETCHING)
                case State.AWAY:
                    self._ask_again(State.CONNECTING)
                case _:
                    self._ask_again(self.state)
        return self._go_on(now)

    def wake_at(self) -> float | None:
        due = [] if self.alarm is None or self.engine.size else [self.alarm]
        if self.engine.size or self.state is State.READY:
            due.append((self._ticked_ms + self.engine.wait_ms) / 1000)
        return min(due, default=None)

    # Requests

    def _ask_again(self, state: State) -> None:
        """Open the request of this state, for the first time or after congestion."""
        self.state, self.alarm = state, None
        match state:
            case State.CONNECTING | State.RISING:
                self.engine.flags = CLEAN_SESSION if self.clean and not self.conversations else 0
                self.engine.connect()
            case State.SUBSCRIBING:
                self.engine.subscribe(self.command_topic, self.qos)
            case State.DOZING | State.FETCHING:
                self._open_sleep(state)
            case _:
                self._open_publish()

    def _open_sleep(self, state: State) -> None:
        self.state = state
        if state is State.DOZING:
            self.engine.open(Disconnect.KIND, Disconnect.KIND, 2, self.pace.sleep_s, b"")
        else:
            self.engine.open(Pingreq.KIND, Pingresp.KIND, 0, 0, self.client_id)

    def _open_publish(self) -> None:
        """Of the reading in flight: PUBLISH; PUBREL if it came so far; REGISTER if that is due."""
        reading, engine = self.in_flight, self.engine
        assert reading is not None
        if len(engine.frame) < len(reading.payload) + PUBLISH_BYTES:
            engine.frame = bytearray(len(reading.payload) + PUBLISH_BYTES)
        self._is_publish = engine.publish(self.topic, reading.payload, self.qos, 0)
        self._is_again = self._is_publish and reading.sent_at is not None

    # How it goes on

    def _go_on(self, now: float) -> list[Effect]:
        """Send what is due, and open what comes next, until a request is open or all is done."""
        engine, effects = self.engine, list[Effect]()
        while True:
            if engine.size or self.state is State.READY:
                effects += self._due(now)
            if engine.size:
                return effects
            code, engine.code = engine.code, 0
            if code < 0:
                lost = EndReason.BY_GATEWAY if code == LOST else EndReason.SILENCE
                return effects + self._lost(lost, now)
            if self.state in RADIO_OFF or (
                self.alarm is not None and self.state is not State.READY
            ):
                return effects
            effects += self._ended(code, now)
            if not engine.size:
                return effects

    def _due(self, now: float) -> list[Effect]:
        engine = self.engine
        now_ms = round(1000 * now)
        size = engine.due(now_ms - self._ticked_ms)
        self._ticked_ms = now_ms
        if not size:
            return []
        if self._is_publish and self.in_flight is not None and self.in_flight.sent_at is None:
            self.in_flight.sent_at = now
        sent = Send(bytes(engine.frame[:size]))
        is_again, self._is_again = self._is_again or engine._tries > 1, False
        return [Retransmitted(), sent] if is_again else [sent]

    def _lost(self, reason: EndReason, now: float) -> list[Effect]:
        if self.state is State.LEAVING:
            return self._end()
        self.engine.close(LOST)
        self.engine.code = 0
        self.state = State.AWAY
        self.alarm = now + self.dice.uniform(*self.pace.reconnect_pause_s)
        return [ConversationEnded(reason)]

    def _ended(self, code: int, now: float) -> list[Effect]:
        """What follows on the end of the request that was open."""
        match self.state:
            case State.LEAVING:
                return self._left(code)
            case _ if code == ReturnCode.CONGESTION:
                self.alarm = now + self.pace.congestion_pause_s
                return []
            case State.PUBLISHING:
                return self._published(code, now)
            case _ if code:
                return self._lost(EndReason.REFUSED, now)
            case State.CONNECTING:
                self.conversations += 1
                self._ask_again(State.SUBSCRIBING)
                return []
            case State.SUBSCRIBING:
                return [Connected(), *self._next(now)]
            case State.DOZING | State.FETCHING:
                return self._fell_asleep(now)
            case _:
                return self._next(now)

    def _published(self, code: int, now: float) -> list[Effect]:
        if not self._is_publish and code:
            return self._lost(EndReason.REFUSED, now)
        if not self._is_publish or (code and not self.engine.number(self.topic)):
            self._open_publish()  # the topic has a number now, or no longer
            return []
        reading, self.in_flight = self.in_flight, None
        assert reading is not None
        if code:
            return [Dropped(DropReason.REFUSED), *self._next(now)]
        if not self.qos:
            # The library would not ask for as long as readings go out, and they prove nothing.
            ping_at = self._received_at + self.pace.keep_alive_s / 2
            self.engine.wait_ms = min(self.engine.wait_ms, max(1, round(1000 * (ping_at - now))))
            return self._next(now)
        assert reading.sent_at is not None
        return [Acknowledged(reading.payload, now - reading.sent_at), *self._next(now)]

    def _next(self, now: float) -> list[Effect]:
        """Publish what waits, or be ready."""
        if self.in_flight is None and self.waiting:
            self.in_flight = self.waiting.popleft()
            self.engine.reading_id = 0
        if self.in_flight is not None:
            self._ask_again(State.PUBLISHING)
        elif self.state is not State.READY or self.alarm is None:
            self.state = State.READY
            self.alarm = now + self.pace.linger_s if self.pace.sleep_s else None
        return []

    def _fell_asleep(self, now: float) -> list[Effect]:
        """Asleep until it is time to fetch; or up again, if there is a reading by now."""
        self.state = State.ASLEEP
        self.alarm = now + self.pace.sleep_s * self.pace.wake_after
        if self.has_readings:
            self._ask_again(State.RISING)
        return [FellAsleep(self.pace.sleep_s)]

    def _left(self, code: int) -> list[Effect]:
        """After the CONNECT that takes the session's place comes DISCONNECT."""
        if code or not self.engine.state:
            return self._end()
        self.engine.open(Disconnect.KIND, Disconnect.KIND, 0, 0, b"")
        return []

    def _end(self) -> list[Effect]:
        self.state, self.alarm = State.GONE, None
        return [Finished()]
