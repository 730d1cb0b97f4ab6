"""The live table in the terminal, drawn with rich.

It fits the terminal: under `WIDE_COLUMNS` columns the topic is left out and latency is one column;
sensors that do not fit the height are counted in the last row. Drawing reads `Seen` four times a
second and keeps nothing of its own.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from rich.console import Console, Group, JustifyMethod
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gateway.cli.demo.gateway_process import Ports
from gateway.cli.demo.hints import hints
from gateway.cli.demo.screen import STARTING, UNITS, in_ms
from gateway.cli.demo.seen import Event, Notice, Seen, SensorSeen
from gateway.cli.demo.sensor import topic_of

WIDE_COLUMNS = 110
DRAW_EVERY_S = 0.25
NOTICE_S = 5.0  # how long a notice stays
LINES_AROUND = 13  # heading, status, hints and the table's own lines
COMMAND = "command, done in"
COMMAND_COLUMNS = 20  # else the table changes its width with each command
VALUES = ("temperature", "humidity", "battery")
DECIMALS = {"temperature": 1, "humidity": 0, "battery": 2}


@dataclass(slots=True)
class LiveTable:
    console: Console
    ports: Ports | None = field(default=None, init=False)
    seen: Seen | None = field(default=None, init=False)
    live: Live | None = field(default=None, init=False)
    started: float = field(default_factory=time.monotonic, init=False)
    notice: tuple[float, str] | None = field(default=None, init=False)
    hints: list[str] = field(default_factory=list, init=False)

    def starting(self) -> None:
        self.console.print(Text(STARTING, style="dim"))

    def opened(self, ports: Ports, seen: Seen) -> None:
        self.ports, self.seen = ports, seen
        self.hints = hints(ports, seen)
        self.live = Live(console=self.console, auto_refresh=False, redirect_stderr=False)
        self.live.start()

    def tell(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.notice = (time.monotonic() + NOTICE_S, f"{event.name} {event.text}")

    async def draw(self) -> None:
        while True:
            self._draw()
            await asyncio.sleep(DRAW_EVERY_S)

    def close(self) -> None:
        if self.live is not None:
            self._draw()
            self.live.stop()
            self.live = None

    def _draw(self) -> None:
        if self.live is not None:
            self.live.update(self.picture(), refresh=True)

    def picture(self) -> Group:
        assert self.seen is not None
        assert self.ports is not None
        return Group(
            _heading(self.ports, time.monotonic() - self.started),
            Text(""),
            sensor_table(self.seen, self.console.width, self.console.height),
            Text(""),
            _status(self.seen),
            self._notice(),
            Text("\n".join(self.hints), style="dim"),
        )

    def _notice(self) -> Text:
        if self.notice is None or self.notice[0] < time.monotonic():
            return Text("")
        return Text(self.notice[1], style="yellow")


def _heading(ports: Ports, seconds: float) -> Text:
    gateway = f"gateway 127.0.0.1:{ports.udp} (UDP)"
    broker = f"broker 127.0.0.1:{ports.broker}"
    return Text.assemble(("Tidegate demo", "bold"), f"  {gateway} → {broker}  {seconds:.0f} s")


def _status(seen: Seen) -> Text:
    sensors = seen.sensors.values()
    up = sum(s.readings for s in sensors)
    acknowledged = sum(s.acknowledged for s in sensors)
    repeated = sum(s.retransmitted for s in sensors)
    down = sum(s.commands_sent for s in sensors)
    confirmed = sum(s.commands_confirmed for s in sensors)
    return Text(
        f"up {up} ({acknowledged} acknowledged, {repeated} retransmitted)   "
        f"down {down} ({confirmed} confirmed)"
    )


def sensor_table(seen: Seen, width: int, height: int) -> Table:
    wide = width >= WIDE_COLUMNS
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for title, right in _columns(wide):
        columns = COMMAND_COLUMNS if title == COMMAND else None
        justify: JustifyMethod = "right" if right else "left"
        table.add_column(title, justify=justify, no_wrap=True, min_width=columns)
    sensors = list(seen.sensors.values())
    rows_max = max(1, height - LINES_AROUND)
    shown = sensors if len(sensors) <= rows_max else sensors[: max(1, rows_max - 1)]
    for sensor in shown:
        table.add_row(*_row(sensor, wide))
    if len(shown) < len(sensors):
        table.add_row(Text(f"and {len(sensors) - len(shown)} more", style="dim"))
    return table


def _columns(wide: bool) -> list[tuple[str, bool]]:
    latency = ["latency", "median", "max"] if wide else ["ms now/mid/max"]
    topic = ["topic"] if wide else []
    left = {"sensor", "topic", COMMAND}
    titles = ["sensor", *topic, "temp", "hum", "batt", "QoS", "seen", *latency, COMMAND]
    return [(title, title not in left) for title in titles]


def _row(sensor: SensorSeen, wide: bool) -> list[str | Text]:
    topic = [topic_of(sensor.name)] if wide else []
    values = [_value(sensor, name) for name in VALUES]
    return [
        Text(sensor.name, style="cyan"),
        *topic,
        *values,
        str(sensor.qos),
        str(sensor.readings),
        *_latency(sensor, wide),
        _command(sensor),
    ]


def _value(sensor: SensorSeen, name: str) -> str:
    if sensor.pack is None:
        return "-"
    for measurement in sensor.pack.measurements:
        if measurement.name == name:
            unit = UNITS.get(measurement.unit, measurement.unit)
            return f"{measurement.value:.{DECIMALS[name]}f}{unit}"
    return "-"


def _latency(sensor: SensorSeen, wide: bool) -> list[str]:
    if not sensor.readings:
        return ["-"] * (3 if wide else 1)
    times = (sensor.latency_last_s, sensor.latency_p50_s(), sensor.latency_max_s)
    if wide:
        return [in_ms(seconds) for seconds in times]
    return ["/".join(f"{seconds * 1000:.0f}" for seconds in times)]


def _command(sensor: SensorSeen) -> Text:
    command = sensor.command
    if command is None:
        return Text("")
    if command.refused:
        return Text(f"{command.text!r} refused", style="red")
    asked = f"every {command.text} s"
    if command.confirmed_after_s is None:
        return Text(f"{asked} ...", style="yellow")
    return Text(f"{asked}, {in_ms(command.confirmed_after_s)}", style="green")
