"""Charts as SVG: lines over a day, a field of hours, a strip with marks. Text in, text out.

Coordinates are those of a view box WIDTH wide; colours are names of the page's style sheet, so that
a dark page has dark charts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from math import floor, log10

WIDTH = 1040
LEFT = 120  # of what is drawn; names stand before it
RIGHT = 24
HEIGHT = 250
BOTTOM = 26
COLOURS = 8  # of lines, c0 to c7
DASHES = 3  # beyond that many lines they are dashed, then dotted: d0 to d2
HOURS_LABELLED = range(0, 25, 3)
# What is further apart than a double can say, or as close as its rounding, is drawn as if not so.
FAR = 1e300
SAME = 1e-9  # of the larger one
STEPS_SPELLED = (1e-6, 1e9)  # others are labelled with an exponent

Values = Sequence[float | None]


def lines(series: Sequence[tuple[str, Values]], least: Values, most: Values, unit: str) -> str:
    """A line for each series of a day, and behind them what lies between least and most."""
    there = [value for value in (*least, *most) if value is not None]
    low, high, step = _axis(*(min(max(each, -FAR), FAR) for each in (min(there), max(there))))

    def x(index: float) -> float:
        return LEFT + index / len(least) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return 10 + (high - min(max(value, low), high)) / (high - low) * (HEIGHT - BOTTOM - 10)

    parts = [*_levels(low, high, step, unit, y), _hours(HEIGHT - BOTTOM)]
    for first, end in _stretches(least):
        upper = [(x(index + 0.5), y(_sure(most[index]))) for index in range(first, end)]
        lower = [(x(index + 0.5), y(_sure(least[index]))) for index in range(first, end)]
        parts.append(f'<polygon class="band" points="{_points(upper + lower[::-1])}"/>')
    for number, (name, values) in enumerate(series):
        for first, end in _stretches(values):
            points = [(x(index + 0.5), y(_sure(values[index]))) for index in range(first, end)]
            if len(points) == 1:
                points *= 2  # a dot is a line without length
            parts.append(
                f'<polyline class="line {style(number)}" points="{_points(points)}">'
                f"<title>{escape(name)}</title></polyline>"
            )
    return _svg(HEIGHT, parts)


def style(number: int) -> str:
    """Of a line and its key; no two of the first COLOURS * DASHES are alike."""
    return f"c{number % COLOURS} d{number // COLOURS % DASHES}"


def field(rows: Sequence[tuple[str, Values]]) -> str:
    """A row of 24 hours for each name, darker where more of 100 percent is there."""
    tall = max(12, min(22, 440 // max(1, len(rows))))
    wide = (WIDTH - LEFT - RIGHT) / 24
    parts = []
    for number, (name, values) in enumerate(rows):
        top = number * tall
        parts.append(_label(name, top + tall / 2 + 4))
        for hour, percent in enumerate(values):
            shown = "nothing" if percent is None else f"{percent:.0f} %"
            parts.append(
                f'<rect class="{_shade(percent)}" x="{LEFT + hour * wide + 1:.1f}" y="{top + 1}" '
                f'width="{wide - 2:.1f}" height="{tall - 2}" rx="2"><title>{escape(name)}, '
                f"{hour:02}:00: {shown}</title></rect>"
            )
    height = len(rows) * tall
    return _svg(height + BOTTOM, [*parts, _hours(height)])


def strip(rows: Iterable[tuple[str, Sequence[tuple[float, float, str]]]]) -> str:
    """A bar for each name, whole but for marks: from and to as shares of the day, and what."""
    tall, parts, top = 30, [], 0
    for name, marks in rows:
        parts.append(_label(name, top + tall / 2 + 4))
        parts.append(_bar("whole", 0.0, 1.0, top, tall, f"{name}: all that it numbered"))
        for begins, ends, title in marks:
            parts.append(_bar("hole", begins, max(ends, begins + 0.004), top, tall, title))
        top += tall
    return _svg(top + BOTTOM, [*parts, _hours(top)])


def _bar(kind: str, begins: float, ends: float, top: int, tall: int, title: str) -> str:
    wide = WIDTH - LEFT - RIGHT
    return (
        f'<rect class="{kind}" x="{LEFT + begins * wide:.1f}" y="{top + 5}" rx="3" '
        f'width="{(ends - begins) * wide:.1f}" height="{tall - 10}"><title>{escape(title)}</title>'
        "</rect>"
    )


def _shade(percent: float | None) -> str:
    """Five steps; what is missing shall be seen from afar."""
    if percent is None:
        return "none"
    return next(
        name
        for name, least in (("full", 99.5), ("most", 90), ("half", 50), ("some", 1), ("none", -1))
        if percent >= least
    )


def _axis(low: float, high: float) -> tuple[float, float, float]:
    """From, to and step in round numbers: 1, 2 or 5."""
    span, largest = high - low, max(abs(low), abs(high))
    if span <= SAME * largest:
        span = largest
    if span < 1 / FAR:
        span = 1.0
    size = 10.0 ** floor(log10(span / 4))
    step = next(size * each for each in (1, 2, 5, 10) if span / (size * each) <= 5)
    first, last = floor(low / step) * step, -floor(-high / step) * step
    return first, last if last > first else first + step, step


def _levels(low: float, high: float, step: float, unit: str, y: object) -> Iterator[str]:
    assert callable(y)
    least, most = STEPS_SPELLED
    shape = f".{max(0, -floor(log10(step)))}f" if least <= step <= most else ".4g"
    for number in range(round((high - low) / step) + 1):
        value = low + number * step
        at = y(value)
        yield f'<line class="level" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield _label(f"{value:{shape}} {unit}", at + 4)


def _hours(top: float) -> str:
    wide = WIDTH - LEFT - RIGHT
    return "".join(
        f'<text class="hour" x="{LEFT + hour / 24 * wide:.1f}" y="{top + 18}">{hour:02}:00</text>'
        for hour in HOURS_LABELLED
    )


def _label(text: str, y: float) -> str:
    short = text if len(text) <= 16 else f"{text[:15]}…"
    return f'<text class="name" x="{LEFT - 10}" y="{y:.1f}">{escape(short)}</text>'


def _stretches(values: Values) -> Iterator[tuple[int, int]]:
    """From and to of what is there without a hole."""
    first: int | None = None
    for index, value in enumerate([*values, None]):
        if value is not None and first is None:
            first = index
        elif value is None and first is not None:
            yield first, index
            first = None


def _sure(value: float | None) -> float:
    assert value is not None
    return value


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _svg(height: float, parts: Iterable[str]) -> str:
    return (
        f'<div class="wide"><svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(parts)}'
        "</svg></div>"
    )
