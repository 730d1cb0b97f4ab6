"""What a screen of the demo is, and the two without colours: one line per event, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from gateway.cli.demo.gateway_process import PASSWORD, Ports
from gateway.cli.demo.hints import hints
from gateway.cli.demo.seen import (
    CommandConfirmed,
    CommandSent,
    Event,
    Notice,
    PresenceChanged,
    ReadingArrived,
    Seen,
)
from gateway.cli.sensors.sensor import INTERVAL_NAME, command_topic_of, topic_of

UNITS = {"Cel": "°C", "%RH": "%"}  # SenML's names of units, as people write them


def starting(ports: Ports) -> list[str]:
    """The first lines: where to look, before there is something to see."""
    return [
        f'Status page: http://127.0.0.1:{ports.admin}/ (to act there, sign in with "{PASSWORD}")',
        "Starting mosquitto and the gateway ...",
    ]


class Screen(Protocol):
    def starting(self, ports: Ports) -> None:
        """Broker and gateway are being started, which takes seconds on a small board."""

    def opened(self, ports: Ports, seen: Seen) -> None:
        """Gateway and broker answer; the sensors start."""

    def show(self, event: Event) -> None: ...

    async def draw(self) -> None:
        """Keep what is shown up to date, until cancelled."""

    def close(self) -> None: ...


class Silence:
    """For --json: nothing but the summary."""

    def starting(self, ports: Ports) -> None:
        pass

    def opened(self, ports: Ports, seen: Seen) -> None:
        pass

    def show(self, event: Event) -> None:
        pass

    async def draw(self) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        pass


@dataclass(slots=True)
class Lines:
    """One line per event; `write` gets each without its end."""

    write: Callable[[str], None]

    def starting(self, ports: Ports) -> None:
        for line in starting(ports):
            self.write(line)

    def opened(self, ports: Ports, seen: Seen) -> None:
        self.write(f"Gateway 127.0.0.1:{ports.udp} (UDP), broker 127.0.0.1:{ports.broker}")
        for line in hints(ports, seen):
            self.write(line)

    def show(self, event: Event) -> None:
        clock = datetime.now().astimezone().strftime("%H:%M:%S.%f")[:-3]
        self.write(f"{clock}  {line_for(event)}")

    async def draw(self) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        pass


def line_for(event: Event) -> str:
    match event:
        case ReadingArrived():
            values = "  ".join(
                f"{m.name} {m.value:g} {UNITS.get(m.unit, m.unit)}"
                for m in event.pack.measurements
                if m.name != INTERVAL_NAME
            )
            topic = topic_of(event.name)
            return f"up    {topic}  {values}  qos {event.qos}  {in_ms(event.latency_s)}"
        case CommandSent():
            who = "" if event.ours else "  (yours)"
            waits = f"  (waits: {event.presence})" if is_absent(event.presence) else ""
            return f"down  {command_topic_of(event.name)}  {event.text}{who}{waits}"
        case CommandConfirmed():
            after = in_ms(event.after_s)
            return f"done  {topic_of(event.name)}  now every {event.text} s, after {after}"
        case PresenceChanged():
            return f"gate  {event.name}  {event.text}"
        case Notice():
            return f"note  {event.name}  {event.text}"


def is_absent(presence: str) -> bool:
    """Whether a message for the sensor waits in the gateway."""
    return presence.startswith(("asleep", "overdue", "lost", "disconnected"))


def in_ms(seconds: float) -> str:
    ms = seconds * 1000
    return f"{ms:.1f} ms" if ms < 99.95 else f"{ms:.0f} ms"
