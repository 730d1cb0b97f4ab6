"""A simulated sensor: measures at its interval, publishes SenML, obeys commands. No I/O.

It is a `SensorClient` with an application on top. A command on `demo/<id>/set` is the new interval
in seconds, as text; the sensor obeys and reports at once, and every report carries the interval,
by which any client of the broker can see that the command arrived. With `payload_bytes` a report
is so many bytes instead, which begin with its number.

Limits: an interval is `INTERVAL_MIN_S` to `INTERVAL_MAX_S`; anything else is refused and changes
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from gateway.cli.sensors import senml
from gateway.cli.sensors.client import SensorClient
from gateway.cli.sensors.client_effects import Connected, Effect, Received
from gateway.cli.sensors.pace import Pace
from gateway.cli.sensors.readings import Walk, indoor_walks

INTERVAL_MIN_S = 0.1
INTERVAL_MAX_S = 3600.0
COMMAND_BYTES_MAX = 16
INTERVAL_NAME = "interval"


@dataclass(frozen=True, slots=True)
class Published:
    """A reading was measured and handed to the client."""


@dataclass(frozen=True, slots=True)
class Obeyed:
    interval_s: float


@dataclass(frozen=True, slots=True)
class Refused:
    """A command that is not an interval; the text is cut and printable."""

    command: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A datagram from the gateway that is no MQTT-SN message, and why."""

    reason: str


SensorEvent = Effect | Published | Obeyed | Refused | Unreadable
News = SensorEvent  # its name in the simulation


def topic_of(name: str, prefix: str = "demo") -> str:
    return f"{prefix}/{name}"


def command_topic_of(name: str, prefix: str = "demo") -> str:
    return f"{prefix}/{name}/set"


@dataclass(slots=True)
class SimulatedSensor:
    name: str
    qos: int
    interval_s: float
    unix_offset_s: float  # Unix time minus `now`
    dice: Random
    pace: Pace = field(default_factory=Pace)
    prefix: str = "demo"  # of its topics
    payload_bytes: int | None = None  # None: as many as a SenML pack has
    clean: bool = False
    reports: int = field(default=0, init=False)
    client: SensorClient = field(init=False)
    walks: tuple[Walk, ...] = field(init=False)
    measure_at: float | None = field(default=None, init=False)
    is_finished: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        topic = topic_of(self.name, self.prefix).encode()
        commands = command_topic_of(self.name, self.prefix).encode()
        name = self.name.encode()
        self.client = SensorClient(
            client_id=name,
            topic=topic,
            command_topic=commands,
            qos=self.qos,
            dice=self.dice,
            pace=self.pace,
            clean=self.clean,
        )
        self.walks = indoor_walks(self.dice)

    # From the shell

    def start(self, now: float) -> list[SensorEvent]:
        """Connect; the first reading is taken when the conversation is complete."""
        return [*self.client.connect(now)]

    def finish(self) -> None:
        """Measure no more; what was measured still goes out."""
        self.is_finished, self.measure_at = True, None

    def stop(self, now: float) -> list[SensorEvent]:
        """Measure no more and leave the gateway with DISCONNECT."""
        self.finish()
        return [*self.client.leave(now)]

    def receive(self, datagram: bytes, now: float) -> list[SensorEvent]:
        events: list[SensorEvent] = []
        for effect in self.client.receive(datagram, now):
            events.append(effect)
            match effect:
                case Received():
                    events += self._obey(effect.payload, now)
                case Connected() if self.measure_at is None and not self.is_finished:
                    events += self._report(now)
                    self.measure_at = now + self.interval_s * self.dice.uniform(0.2, 1.0)
        return events

    def handle_time(self, now: float) -> list[SensorEvent]:
        events: list[SensorEvent] = [*self.client.handle_time(now)]
        if self.measure_at is not None and self.measure_at <= now:
            events += self._report(now)
        return events

    def wake_at(self) -> float | None:
        due = [at for at in (self.client.wake_at(), self.measure_at) if at is not None]
        return min(due, default=None)

    # Helpers

    def _report(self, now: float) -> list[SensorEvent]:
        self.measure_at = now + self.interval_s
        self.reports += 1
        return [Published(), *self.client.publish(self._payload(now), now)]

    def _payload(self, now: float) -> bytes:
        if self.payload_bytes is not None:
            number = b"%d" % self.reports
            return number.ljust(self.payload_bytes, b".")[: self.payload_bytes]
        measured = [walk.measure(self.dice) for walk in self.walks]
        interval = senml.Measurement(INTERVAL_NAME, "s", self.interval_s)
        pack = senml.Pack(self.name + "/", now + self.unix_offset_s, (*measured, interval))
        return senml.encode(pack)

    def _obey(self, payload: bytes, now: float) -> list[SensorEvent]:
        interval_s = interval_in(payload)
        if interval_s is None:
            return [Refused(printable(payload))]
        self.interval_s = interval_s
        return [Obeyed(interval_s), *(self._report(now) if self.measure_at is not None else [])]


def interval_in(payload: bytes) -> float | None:
    """The interval that a command asks for; None if it is not one."""
    if len(payload) > COMMAND_BYTES_MAX:
        return None
    try:
        seconds = float(payload)
    except ValueError:
        return None
    return seconds if INTERVAL_MIN_S <= seconds <= INTERVAL_MAX_S else None


def printable(payload: bytes) -> str:
    """A command as text that is safe to show in a terminal, cut if it is long."""
    text = payload[:COMMAND_BYTES_MAX].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in text)
