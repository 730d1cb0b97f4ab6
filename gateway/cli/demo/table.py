"""The live table in the terminal, drawn with rich.

It fits the terminal: under `WIDE_COLUMNS` columns the topic is left out and latency is one column,
under `USUAL_COLUMNS` humidity and battery are left out too and latency is its median, under
`NARROW_COLUMNS` there are only the state, the count and the command of each sensor; those that do
not fit the height are counted in the last row. Drawing reads `Seen` four times a second and keeps
nothing of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from rich.console import Console, Group, JustifyMethod
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gateway.cli.demo.gateway_process import Ports
from gateway.cli.demo.hints import hints
from gateway.cli.demo.screen import UNITS, in_ms, starting
from gateway.cli.demo.seen import Event, Notice, Seen, SensorSeen
from gateway.cli.sensors.sensor import topic_of

WIDE_COLUMNS = 133
USUAL_COLUMNS = 105
NARROW_COLUMNS = 80
DRAW_EVERY_S = 0.25
DRAW_PAUSE_RATIO = 15  # drawing 50 rows takes 30 ms, in which nothing else is measured
NOTICE_S = 5.0  # how long a notice stays
LINES_AROUND = 14  # heading, status, hints and the table's own lines
COMMAND_COLUMNS = 20  # else the table changes its width with each command
STATE_COLUMNS = len("asleep until 14:32:05")
TITLES = {"temperature": "temp", "humidity": "hum", "battery": "batt"}
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

    def starting(self, ports: Ports) -> None:
        first, *rest = starting(ports)
        self.console.print(Text(first))
        self.console.print(Text("\n".join(rest), style="dim"))

    def opened(self, ports: Ports, seen: Seen) -> None:
        self.ports, self.seen = ports, seen
        self.hints = hints(ports, seen)
        self.live = Live(console=self.console, auto_refresh=False, redirect_stderr=False)
        self.live.start()

    def show(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.notice = (time.monotonic() + NOTICE_S, f"{event.name} {event.text}")

    async def draw(self) -> None:
        while True:
            began = time.monotonic()
            self._draw()
            took_s = time.monotonic() - began
            await asyncio.sleep(max(DRAW_EVERY_S, took_s * DRAW_PAUSE_RATIO))

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


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    cell: Callable[[SensorSeen], str | Text]
    justify: JustifyMethod = "right"
    width_min: int | None = None


def sensor_table(seen: Seen, width: int, height: int) -> Table:
    columns = _columns(width)
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column.title, justify=column.justify, no_wrap=True, min_width=column.width_min
        )
    sensors = list(seen.sensors.values())
    rows_max = max(1, height - LINES_AROUND)
    shown = sensors if len(sensors) <= rows_max else sensors[: max(1, rows_max - 1)]
    for sensor in shown:
        table.add_row(*(column.cell(sensor) for column in columns))
    if len(shown) < len(sensors):
        table.add_row(Text(f"and {len(sensors) - len(shown)} more", style="dim"))
    return table


def _columns(width: int) -> list[Column]:
    quantities = list(TITLES) if width >= USUAL_COLUMNS else ["temperature"]
    latency = WIDE_LATENCY if width >= WIDE_COLUMNS else USUAL_LATENCY
    values = [Column(TITLES[quantity], partial(_value, quantity)) for quantity in quantities]
    return [
        Column("sensor", lambda sensor: Text(sensor.name, style="cyan"), "left"),
        Column(title="state", cell=_state, justify="left", width_min=STATE_COLUMNS),
        *([TOPIC] if width >= WIDE_COLUMNS else []),
        *(values if width >= NARROW_COLUMNS else []),
        Column("QoS", lambda sensor: str(sensor.qos)),
        Column("seen", lambda sensor: str(sensor.readings)),
        *(latency if width >= USUAL_COLUMNS else []),
        *([MEDIAN] if NARROW_COLUMNS <= width < USUAL_COLUMNS else []),
        Column(title="command, done in", cell=_command, justify="left", width_min=COMMAND_COLUMNS),
    ]


def _state(sensor: SensorSeen) -> Text:
    words = sensor.presence
    style = "yellow" if words.startswith("overdue") else "red" if words.startswith("lost") else ""
    return Text(words or "-", style="blue" if words.startswith("asleep") else style)


def _value(quantity: str, sensor: SensorSeen) -> str:
    if sensor.pack is None:
        return "-"
    for measurement in sensor.pack.measurements:
        if measurement.name == quantity:
            unit = UNITS.get(measurement.unit, measurement.unit)
            return f"{measurement.value:.{DECIMALS[quantity]}f}{unit}"
    return "-"


def _latencies(sensor: SensorSeen) -> str:
    if not sensor.readings:
        return "-"
    times = (sensor.latency_last_s, sensor.latency_p50_s(), sensor.latency_max_s)
    return "/".join(f"{seconds * 1000:.0f}" for seconds in times)


TOPIC = Column("topic", lambda sensor: topic_of(sensor.name), "left")
MEDIAN = Column("ms", lambda s: f"{s.latency_p50_s() * 1000:.0f}" if s.readings else "-")
USUAL_LATENCY = [Column("ms now/mid/max", _latencies)]
WIDE_LATENCY = [
    Column("latency", lambda s: in_ms(s.latency_last_s) if s.readings else "-"),
    Column("median", lambda s: in_ms(s.latency_p50_s()) if s.readings else "-"),
    Column("max", lambda s: in_ms(s.latency_max_s) if s.readings else "-"),
]


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
