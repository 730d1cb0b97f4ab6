"""A sensor as MQTT-SN 1.2 wants its clients, with its own retries and memory.

It has one exchange outstanding (CONNECT, REGISTER, SUBSCRIBE or PUBLISH), repeats it after
T_RETRY_S up to N_RETRY times and then connects anew; it keeps a reading until the gateway has
acknowledged it. It answers what comes down, each message id once, but for what it `ignores`, and
pings when it has been quiet. QoS 0 readings go out beside all that.

`keeps` sensors have a flash: readings, message ids and the stage of the exchange survive a reboot.
Others start with message id 1 again and have forgotten what was not acknowledged, but stay off for
REUSE_LIFETIMES times the longest life of a datagram: a late one may draw an answer that is as late
again. No sensor uses a message id again within that time; one that has forgotten which it used
waits a lifetime after CONNACK as well, for what was on its way to its former self.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

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
    encode,
)
from tests.simulation.agenda import Agenda
from tests.simulation.plan import PlannedReading, SensorPlan
from tests.simulation.stream import nothing

T_RETRY_S = 10.0
N_RETRY = 4
KEEP_ALIVE_S = 60
PING_EVERY_S = 25.0
REBOOT_S = 2.0
RECENT_MAX = 16
REUSE_LIFETIMES = 2

Received = tuple[int, int, bytes]  # message id, topic id, payload


@dataclass(slots=True)
class Exchange:
    """What was asked of the gateway and waits for an answer."""

    frame: Frame
    tries: int = 0


@dataclass(slots=True)
class Outstanding:
    """The reading that is being carried, as the flash has it; `released`: PUBREC came."""

    reading: PlannedReading
    message_id: int
    sent: bool = False
    released: bool = False


class Sensor:
    receivers: ClassVar[dict[type, Callable[[Any, Any], None]]]  # of frames; given at the end

    def __init__(
        self,
        plan: SensorPlan,
        agenda: Agenda,
        transmit: Callable[[Sensor, bytes], None],
        lifetime_s: float,
    ) -> None:
        self.plan = plan
        self.address = b""
        self.on_acknowledged: Callable[[Sensor, PlannedReading], None] = nothing
        self.on_refused: Callable[[Sensor, PlannedReading], None] = nothing  # for good
        self.on_message: Callable[[Sensor, Publish], None] = nothing
        self.on_subscribed: Callable[[Sensor, str], None] = nothing
        self.waiting: deque[PlannedReading] = deque()
        self.outstanding: Outstanding | None = None
        self.ready = False
        self.boots = 0
        self._agenda = agenda
        self._transmit = transmit
        self._lifetime_s = lifetime_s
        self._reuse_after_s = REUSE_LIFETIMES * lifetime_s
        self._on = False
        self._off_until = 0.0
        self._exchange: Exchange | None = None
        self._steps: deque[Frame] = deque()  # what is left to say before it is ready
        self._subscribed: set[str] = set()
        self._topic_ids: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._message_id = plan.message_id_first - 1
        self._used_at: dict[int, float] = {}
        self._ids_free_at = 0.0
        self._has_forgotten = False
        self._received: set[Received] = set()
        self._finished: dict[Received, float] = {}
        self._sent_at = 0.0
        self._unanswered_pings = 0

    @property
    def is_done(self) -> bool:
        return self.ready and not (
            self._exchange or self._steps or self.is_carrying or self.waiting
        )

    @property
    def is_carrying(self) -> bool:
        """Whether a reading is on its way."""
        return self.outstanding is not None

    # From the world

    def boot(self) -> None:
        if self._on or self._agenda.now < self._off_until:
            return
        self._on = True
        self.boots += 1
        self._agenda.after(PING_EVERY_S, self._ping, self.boots)
        self._connect()

    def reboot(self) -> None:
        """Everything in memory is gone; what is in the flash is not."""
        self._on = self.ready = False
        self._exchange = None
        self._unanswered_pings = 0
        pause_s = REBOOT_S
        if not self.plan.keeps:
            pause_s += self._reuse_after_s
            self.outstanding = None
            self._message_id = 0
            self._has_forgotten = True
            self._used_at.clear()
            self._received.clear()
            self._finished.clear()
            self._subscribed.clear()
        self._off_until = self._agenda.now + pause_s
        self._agenda.at(self._off_until, self.boot)

    def measure(self, reading: PlannedReading) -> None:
        if reading.qos > 0:
            self.waiting.append(reading)
            self._go_on()
        elif self.ready and reading.topic in self._topic_ids:
            topic_id = self._topic_ids[reading.topic]
            self._send(Publish(topic_id, 0, reading.payload, 0, reading.retain))

    def receive(self, frame: Frame) -> None:
        receiver = self.receivers.get(type(frame))
        if self._on and receiver is not None:
            receiver(self, frame)

    # Getting ready

    def _connect(self) -> None:
        self.ready = False
        self._unanswered_pings = 0
        client_id = self.plan.client_id.encode()
        self._ask(Connect(client_id, KEEP_ALIVE_S, clean_session=self.plan.clean))

    def _receive_connack(self, frame: Connack) -> None:
        if not self._asked(Connect) or frame.return_code != ReturnCode.ACCEPTED:
            return
        if self._has_forgotten:
            self._has_forgotten = False
            self._ids_free_at = self._agenda.now + self._lifetime_s
        self._topic_ids.clear()
        self._names.clear()
        if self.plan.clean:
            self._received.clear()
            self._finished.clear()
        if self.plan.clean or self.plan.resubscribes:
            self._subscribed.clear()
        self._steps = deque(Register(0, 0, topic.encode()) for topic in self.plan.topics)
        self._steps += (
            Subscribe(0, topic_filter.encode(), qos)
            for topic_filter, qos in self.plan.filters.items()
            if topic_filter not in self._subscribed
        )
        self._exchange = None
        self._go_on()

    def _receive_regack(self, frame: Regack) -> None:
        asked = self._answered(Register, frame.message_id)
        if asked is not None and frame.return_code == ReturnCode.ACCEPTED:
            topic = asked.topic_name.decode()
            self._topic_ids[topic] = frame.topic_id
            self._names[frame.topic_id] = topic
            self._exchange = None
            self._go_on()

    def _receive_suback(self, frame: Suback) -> None:
        asked = self._answered(Subscribe, frame.message_id)
        if asked is not None and frame.return_code == ReturnCode.NOT_SUPPORTED:
            self._exchange = None
            self._go_on()
        elif asked is not None and frame.return_code == ReturnCode.ACCEPTED:
            topic_filter = asked.topic.decode()
            self._subscribed.add(topic_filter)
            if frame.topic_id:
                self._names[frame.topic_id] = topic_filter
            self.on_subscribed(self, topic_filter)
            self._exchange = None
            self._go_on()

    def _receive_disconnect(self, _frame: Disconnect) -> None:
        if not self._asked(Connect):
            self._connect()

    # One thing after the other

    def _go_on(self) -> None:
        """Begin the next exchange, if none is outstanding."""
        if self._exchange is not None or not self._on:
            return
        if self._steps:
            message_id = self._next_message_id()
            if message_id is not None:
                step = self._steps.popleft()
                self._ask(_with_message_id(step, message_id))
            return
        self.ready = True
        self._carry_on()

    def _carry_on(self) -> None:
        """All is said that must be said before a reading."""
        if self.outstanding is None and self.waiting:
            message_id = self._next_message_id()
            if message_id is None:
                return
            self.outstanding = Outstanding(self.waiting.popleft(), message_id)
        if self.outstanding is not None:
            self._ask(self._frame_of(self.outstanding))

    def _frame_of(self, outstanding: Outstanding) -> Publish | Pubrel:
        """What says it, or says it again."""
        reading, message_id = outstanding.reading, outstanding.message_id
        if outstanding.released:
            return Pubrel(message_id)
        topic_id, is_copy = self._topic_ids[reading.topic], outstanding.sent
        outstanding.sent = True
        return Publish(topic_id, message_id, reading.payload, reading.qos, reading.retain, is_copy)

    def _next_message_id(self) -> int | None:
        """One that is not fresh any more; without one it goes on when there is."""
        message_id = self._message_id % self.plan.message_ids + 1
        used_at = self._used_at.get(message_id)
        free_at = self._ids_free_at if used_at is None else used_at + self._reuse_after_s
        if free_at > self._agenda.now:
            self._agenda.at(free_at, self._go_on)
            return None
        self._message_id = message_id
        return message_id

    def _ask(self, frame: Frame) -> None:
        exchange = self._exchange = Exchange(frame)
        self._say(exchange)

    def _say(self, exchange: Exchange) -> None:
        self._send(exchange.frame)
        self._agenda.after(T_RETRY_S, self._retry, exchange, exchange.tries)

    def _retry(self, exchange: Exchange, tries: int) -> None:
        if self._exchange is not exchange or exchange.tries != tries or not self._on:
            return
        exchange.tries += 1
        if exchange.tries > N_RETRY:
            self._connect()
            return
        if isinstance(exchange.frame, Publish | Subscribe):
            exchange.frame = replace(exchange.frame, dup=True)
        self._say(exchange)

    def _asked(self, kind: type) -> bool:
        return self._exchange is not None and isinstance(self._exchange.frame, kind)

    def _answered(self, kind: type, message_id: int) -> Any:
        """The frame that this answers, if it is outstanding."""
        if self._exchange is None or not isinstance(self._exchange.frame, kind):
            return None
        frame: Any = self._exchange.frame
        if frame.message_id != message_id:
            return None
        self._used_at[message_id] = self._agenda.now
        return frame

    def _send(self, frame: Frame) -> None:
        self._sent_at = self._agenda.now
        message_id = getattr(frame, "message_id", 0)
        if message_id and isinstance(frame, Publish | Pubrel | Register | Subscribe):
            self._used_at[message_id] = self._agenda.now
        self._transmit(self, encode(frame))

    # Readings

    def _receive_puback(self, frame: Puback) -> None:
        if self._answered(Publish, frame.message_id) is None or self.outstanding is None:
            return
        if frame.return_code == ReturnCode.CONGESTION:
            return  # T_WAIT: the retry timer sends it again
        if frame.return_code == ReturnCode.INVALID_TOPIC_ID:
            self._register_again()
            return
        if frame.return_code == ReturnCode.NOT_SUPPORTED:
            self.on_refused(self, self.outstanding.reading)
            self._finish()
            return
        assert frame.return_code == ReturnCode.ACCEPTED, frame
        if self.outstanding.reading.qos == 1:
            self.on_acknowledged(self, self.outstanding.reading)
            self._finish()

    def _register_again(self) -> None:
        """If one topic id is unknown, so may all be."""
        self._exchange = None
        self._steps = deque(Register(0, 0, topic.encode()) for topic in self.plan.topics)
        self._go_on()

    def _receive_pubrec(self, frame: Pubrec) -> None:
        outstanding = self.outstanding
        if outstanding is None or outstanding.message_id != frame.message_id:
            self._send(Pubrel(frame.message_id))
        elif outstanding.reading.qos == 2 and not outstanding.released and outstanding.sent:
            self.on_acknowledged(self, outstanding.reading)
            outstanding.released = True
            if self._asked(Publish):
                self._ask(Pubrel(frame.message_id))

    def _receive_pubcomp(self, frame: Pubcomp) -> None:
        if self._answered(Pubrel, frame.message_id) is not None:
            self._finish()

    def _finish(self) -> None:
        self.outstanding = None
        self._exchange = None
        self._go_on()

    # What comes down

    def _receive_register(self, frame: Register) -> None:
        self._names[frame.topic_id] = frame.topic_name.decode()
        self._send(Regack(frame.topic_id, frame.message_id, ReturnCode.ACCEPTED))

    def _receive_publish(self, frame: Publish) -> None:
        if any(frame.payload == each and self._agenda.now < at for each, at in self.plan.ignores):
            return
        if frame.topic_id not in self._names:
            if frame.qos > 0:
                code = ReturnCode.INVALID_TOPIC_ID
                self._send(Puback(frame.topic_id, frame.message_id, code))
            return
        if frame.qos == 2:
            self._receive_once(frame)
            return
        self.on_message(self, frame)
        if frame.qos == 1:
            self._send(Puback(frame.topic_id, frame.message_id, ReturnCode.ACCEPTED))

    def _receive_once(self, frame: Publish) -> None:
        received = (frame.message_id, frame.topic_id, frame.payload)
        finished_at = self._finished.get(received, -self._lifetime_s)
        is_late = finished_at + self._lifetime_s > self._agenda.now
        if received not in self._received and not is_late:
            self._received.add(received)
            self.on_message(self, frame)
        self._send(Pubrec(frame.message_id))

    def _receive_pubrel(self, frame: Pubrel) -> None:
        for received in sorted(one for one in self._received if one[0] == frame.message_id):
            self._received.remove(received)
            if len(self._finished) >= RECENT_MAX:
                del self._finished[next(iter(self._finished))]
            self._finished[received] = self._agenda.now
        self._send(Pubcomp(frame.message_id))

    # Being there

    def _ping(self, boots: int) -> None:
        if boots != self.boots or not self._on:
            return
        if self.ready and self._agenda.now - self._sent_at >= PING_EVERY_S - T_RETRY_S:
            if self._unanswered_pings > N_RETRY:
                self._connect()
            else:
                self._unanswered_pings += 1
                self._send(Pingreq())
        self._agenda.after(PING_EVERY_S, self._ping, boots)

    def _receive_pingresp(self, _frame: Pingresp) -> None:
        self._unanswered_pings = 0


def _with_message_id(step: Frame, message_id: int) -> Frame:
    if isinstance(step, Register):
        return Register(0, message_id, step.topic_name)
    assert isinstance(step, Subscribe)
    return Subscribe(message_id, step.topic, step.qos)


Sensor.receivers = {
    Connack: Sensor._receive_connack,
    Regack: Sensor._receive_regack,
    Suback: Sensor._receive_suback,
    Disconnect: Sensor._receive_disconnect,
    Puback: Sensor._receive_puback,
    Pubrec: Sensor._receive_pubrec,
    Pubcomp: Sensor._receive_pubcomp,
    Register: Sensor._receive_register,
    Publish: Sensor._receive_publish,
    Pubrel: Sensor._receive_pubrel,
    Pingresp: Sensor._receive_pingresp,
}
