"""A reading as text for people, as wide as the terminal.

One line where all of it fits; else who sent it and to which topic first, and indented below that
what it says. Without a terminal (`width` None) it is always one line.
"""

from __future__ import annotations

from datetime import UTC, datetime
from textwrap import wrap

from gateway.admin.durations import duration
from gateway.cli.watch.reading import Reading, shown
from gateway.config.spelling import printable

GAP = "  "
INDENT = "    "
SENSOR_COLUMNS_MAX = 20  # of names that are made equally long, so that columns stand below another
TOPIC_COLUMNS_MAX = 32
BRIEF_S = 10.0  # an age below is given in tenths
WIDTH_MIN = 20
BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


class Lines:
    def __init__(self, *, has_colours: bool) -> None:
        self._has_colours = has_colours
        self._sensor_columns = self._topic_columns = 0

    def of(self, reading: Reading, width: int | None) -> str:
        sensor, topic = _sensor(reading), printable(reading.topic)
        self._sensor_columns = _grown(self._sensor_columns, sensor, SENSOR_COLUMNS_MAX)
        self._topic_columns = _grown(self._topic_columns, topic, TOPIC_COLUMNS_MAX)
        clock, facts, values = _clock(reading), _facts(reading), shown(reading)
        aligned = (
            clock,
            sensor.ljust(self._sensor_columns),
            topic.ljust(self._topic_columns),
            facts,
        )
        whole = GAP.join((*aligned, values))
        if width is None or len(whole) <= width:
            return self._styled(aligned) + f"{GAP}{values}\n"
        room = max(WIDTH_MIN, width)
        head = (clock, sensor, topic, facts)
        if len(GAP.join(head)) <= room:
            first = self._styled(head)
        else:
            first = "\n".join(wrap(GAP.join(head), room, subsequent_indent=INDENT))
        below = wrap(values, room, initial_indent=INDENT, subsequent_indent=INDENT)
        return "\n".join((first, *below)) + "\n"

    def _styled(self, cells: tuple[str, str, str, str]) -> str:
        if not self._has_colours:
            return GAP.join(cells)
        clock, sensor, topic, facts = cells
        styled = (
            f"{DIM}{clock}{PLAIN}",
            f"{BOLD}{sensor}{PLAIN}",
            topic,
            f"{DIM}{facts}{PLAIN}",
        )
        return GAP.join(styled)


def _grown(columns: int, text: str, columns_max: int) -> int:
    return max(columns, len(text)) if len(text) <= columns_max else columns


def _sensor(reading: Reading) -> str:
    if reading.client is None:
        return "-"
    return printable(reading.client) or "(no name)"


def _clock(reading: Reading) -> str:
    return datetime.fromtimestamp(reading.arrived.unix_s, UTC).astimezone().strftime("%H:%M:%S")


def _facts(reading: Reading) -> str:
    parts = [f"QoS {reading.arrived.qos}"]
    if reading.arrived.retain:
        parts.append("retained")
    if reading.age_s is not None:
        age_s = reading.age_s
        parts.append(f"{age_s:.1f} s ago" if age_s < BRIEF_S else f"{duration(age_s)} ago")
    return ", ".join(parts)
