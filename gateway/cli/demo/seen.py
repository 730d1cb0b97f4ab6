"""What the demo has seen: at the broker, from the sensors, and how the one answers the other.

Everything that the table, the lines and the summary show is taken from here. Times are Unix times
of one clock that does not step (see `Clock`), so that latencies are never negative.

Limits: medians are over the last `LATENCIES_MAX` readings of a sensor; a repeat is recognised
among its last `TIMES_MAX` readings. Nothing grows with the running time.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from dataclasses import dataclass, field

from gateway.cli.sensors import senml
from gateway.cli.sensors.client_effects import (
    Acknowledged,
    ConversationEnded,
    Dropped,
    FellAsleep,
    Retransmitted,
)
from gateway.cli.sensors.sensor import (
    INTERVAL_NAME,
    Published,
    Refused,
    SensorEvent,
    Unreadable,
    command_topic_of,
    interval_in,
    printable,
    topic_of,
)

LATENCIES_MAX = 1000
TIMES_MAX = 64
# The broker sends a command of the user to us and to the gateway; the sensor may be the first to
# have it, and its report be older than our knowledge of the command.
ORDER_S = 0.5


@dataclass(frozen=True, slots=True)
class Clock:
    """Unix time that runs with the monotonic clock: NTP may step the one, never the other."""

    unix_offset_s: float

    @classmethod
    def started(cls) -> Clock:
        return cls(time.time() - time.monotonic())

    def unix(self) -> float:
        return time.monotonic() + self.unix_offset_s


@dataclass(slots=True)
class Command:
    text: str
    interval_s: float | None  # None: not a command that a sensor obeys
    sent_at: float
    confirmed_after_s: float | None = None

    @property
    def refused(self) -> bool:
        return self.interval_s is None


@dataclass(frozen=True, slots=True)
class ReadingArrived:
    name: str
    pack: senml.Pack
    qos: int
    latency_s: float


@dataclass(frozen=True, slots=True)
class CommandSent:
    """`presence`: the sensor's state at the gateway then, such as `asleep until 14:32:05`."""

    name: str
    text: str
    ours: bool
    presence: str = ""


@dataclass(frozen=True, slots=True)
class CommandConfirmed:
    name: str
    text: str
    after_s: float


@dataclass(frozen=True, slots=True)
class Notice:
    """Something out of the ordinary, in a few words."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class PresenceChanged:
    """The gateway reports another state of a sensor than before."""

    name: str
    text: str


Event = ReadingArrived | CommandSent | CommandConfirmed | Notice | PresenceChanged


@dataclass(slots=True)
class SensorSeen:
    name: str
    qos: int
    pack: senml.Pack | None = None
    readings: int = 0  # that arrived at the broker, each counted once
    repeats: int = 0
    published: int = 0
    acknowledged: int = 0
    retransmitted: int = 0
    dropped: int = 0
    reconnects: int = 0
    unreadable: int = 0
    latency_last_s: float = 0.0
    latency_max_s: float = 0.0
    latencies_s: deque[float] = field(default_factory=lambda: deque(maxlen=LATENCIES_MAX))
    times_s: deque[float] = field(default_factory=lambda: deque(maxlen=TIMES_MAX))
    command: Command | None = None
    commands_sent: int = 0
    commands_confirmed: int = 0
    commanded_by_user: bool = False
    sleeps: bool = False
    naps: int = 0
    presence: str = ""  # as the gateway reports it

    def latency_p50_s(self) -> float:
        return statistics.median(self.latencies_s) if self.latencies_s else 0.0

    def acknowledged_missing(self) -> int:
        """Readings that the gateway acknowledged and that have not arrived."""
        return max(0, self.acknowledged - self.readings)

    def reading(self, pack: senml.Pack, qos: int, now: float) -> list[Event]:
        if pack.time_s in self.times_s:
            self.repeats += 1
            return [Notice(self.name, "a reading came twice")]
        self.times_s.append(pack.time_s)
        self.pack, self.readings = pack, self.readings + 1
        self.latency_last_s = now - pack.time_s
        self.latency_max_s = max(self.latency_max_s, self.latency_last_s)
        self.latencies_s.append(self.latency_last_s)
        return [
            ReadingArrived(name=self.name, pack=pack, qos=qos, latency_s=self.latency_last_s),
            *self._confirmed(pack, now),
        ]

    def _confirmed(self, pack: senml.Pack, now: float) -> list[Event]:
        """A report taken after the command, with the interval it asked for, confirms it."""
        command = self.command
        if command is None or command.interval_s is None or command.confirmed_after_s is not None:
            return []
        if pack.value(INTERVAL_NAME) != command.interval_s:
            return []
        if pack.time_s < command.sent_at - (ORDER_S if self.commanded_by_user else 0.0):
            return []
        command.confirmed_after_s = now - command.sent_at
        self.commands_confirmed += 1
        return [CommandConfirmed(self.name, command.text, command.confirmed_after_s)]


@dataclass(slots=True)
class Seen:
    sensors: dict[str, SensorSeen]
    by_topic: dict[str, SensorSeen] = field(init=False)
    by_command_topic: dict[str, SensorSeen] = field(init=False)

    def __post_init__(self) -> None:
        self.by_topic = {topic_of(name): seen for name, seen in self.sensors.items()}
        self.by_command_topic = {
            command_topic_of(name): seen for name, seen in self.sensors.items()
        }

    # From the broker

    def message(self, topic: str, payload: bytes, qos: int, now: float) -> list[Event]:
        sensor = self.by_topic.get(topic)
        if sensor is not None:
            try:
                return sensor.reading(senml.decode(payload), qos, now)
            except senml.SenmlError as error:
                return [Notice(sensor.name, f"unreadable payload at the broker: {error}")]
        commanded = self.by_command_topic.get(topic)
        if commanded is not None:
            commanded.commanded_by_user = True
            return self.command(commanded, payload, now, ours=False)
        return []  # a user tries out the broker below demo/

    # From the demo's own commands

    def command(self, sensor: SensorSeen, payload: bytes, now: float, *, ours: bool) -> list[Event]:
        sensor.command = Command(printable(payload), interval_in(payload), now)
        sensor.commands_sent += 1
        return [
            CommandSent(
                name=sensor.name, text=sensor.command.text, ours=ours, presence=sensor.presence
            )
        ]

    # From the gateway

    def presence(self, name: str, state: str) -> list[Event]:
        """What `/api/clients` says; by how much a sensor is overdue makes no event."""
        sensor = self.sensors.get(name)
        if sensor is None:
            return []
        before, sensor.presence = sensor.presence, state
        if not sensor.sleeps or _kind(before) == _kind(state):
            return []
        return [PresenceChanged(name, state)]

    # From the sensors

    def sensor_event(self, name: str, event: SensorEvent) -> list[Event]:
        sensor = self.sensors[name]
        match event:
            case Published():
                sensor.published += 1
            case FellAsleep():
                sensor.naps += 1
            case Acknowledged():
                sensor.acknowledged += 1
            case Retransmitted():
                sensor.retransmitted += 1
            case Dropped():
                sensor.dropped += 1
                return [Notice(name, f"a reading was dropped: {event.reason.value}")]
            case ConversationEnded():
                sensor.reconnects += 1
                return [Notice(name, f"connects again: {event.reason.value}")]
            case Unreadable():
                sensor.unreadable += 1
                return [Notice(name, f"got an unreadable datagram: {event.reason}")]
            case Refused():
                text = f"refused the command {event.command!r}: not a number of seconds"
                return [Notice(name, text)]
            case _:
                pass
        return []

    # For the exit code

    def all_arrived(self) -> bool:
        return not any(sensor.acknowledged_missing() for sensor in self.sensors.values())

    def missing(self) -> str | None:
        """Which half did not work, as a sentence; None if both did."""
        halves = []
        missing_sensors = [sensor.name for sensor in self.sensors.values() if not sensor.readings]
        if missing_sensors:
            names = ", ".join(missing_sensors[:5]) + (
                f" and {len(missing_sensors) - 5} more" if missing_sensors[5:] else ""
            )
            halves.append(f"The way up is missing: no reading arrived from {names}.")
        if not any(sensor.commands_confirmed for sensor in self.sensors.values()):
            halves.append("The way down is missing: no command was confirmed by a sensor.")
        return " ".join(halves) or None


def _kind(state: str) -> str:
    """`overdue`, or the words themselves: each `asleep until` is another sleep."""
    return "overdue" if state.startswith("overdue") else state
