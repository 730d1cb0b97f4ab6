"""Plots as SVG files that stand alone: lines over a number, panels beside each other.

Each has its own paper and its own style for dark screens, for it is shown as an image: no style
sheet of a page reaches into it. The plots of the test bed (hil/report) and of the day's report
(spark_ingest/report) are parts of their pages, over scenarios and over hours; neither has an axis
of numbers, and the two trees do not see each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

PANEL_WIDTH, PANEL_HEIGHT = 400, 250
LEFT, RIGHT, TOP, BOTTOM = 64, 34, 64, 52  # of a panel, around what is drawn
KEY_LINES_MAX = 2  # above what is drawn
NAME_LETTERS_OF_HALF = 26  # a key with so many has room for another beside it
SERIES_MAX = 4
# Below so many decades a logarithmic axis has marks at 2 and 5 as well.
FEW_DECADES = 2.2
STEPS = (1, 2, 5, 10)
STYLE = """\
:root{--paper:#fff;--ink:#1c2430;--soft:#566072;--rule:#e1e6ec;
--c0:#2463c9;--c1:#c9581a;--c2:#1c7f5e;--c3:#9a3d8b}
@media(prefers-color-scheme:dark){:root{--paper:#14181e;--ink:#e6eaf0;--soft:#9eabbb;--rule:#2d3541;
--c0:#7cabff;--c1:#ff9c5b;--c2:#57cda2;--c3:#e48fd4}}
.paper{fill:var(--paper)}
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:var(--soft)}
.title{font-weight:600;font-size:14px;fill:var(--ink)}
.middle{text-anchor:middle}
.end{text-anchor:end}
.rule{stroke:var(--rule)}
.frame{stroke:var(--soft);fill:none}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.c0{stroke:var(--c0);fill:var(--c0)}
.c1{stroke:var(--c1);fill:var(--c1)}
.c2{stroke:var(--c2);fill:var(--c2)}
.c3{stroke:var(--c3);fill:var(--c3)}
.line{fill:none}
"""


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """The axis of x is logarithmic; that of y begins at 0 unless it is too."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    y_is_log: bool = False


@dataclass(frozen=True, slots=True)
class _Axis:
    least: float
    most: float
    is_log: bool
    marks: tuple[float, ...]

    def share(self, value: float) -> float:
        """Where on the axis, from 0 to 1."""
        if self.is_log:
            return log10(value / self.least) / log10(self.most / self.least)
        return (value - self.least) / (self.most - self.least)


def drawing(panels: Sequence[Panel], made_by: str) -> str:
    """`made_by`: the command that draws it again."""
    width = len(panels) * (LEFT + PANEL_WIDTH + RIGHT)
    height = TOP + PANEL_HEIGHT + BOTTOM
    body = [
        element
        for number, panel in enumerate(panels)
        for element in _panel(panel, number * (LEFT + PANEL_WIDTH + RIGHT) + LEFT)
    ]
    title = "; ".join(panel.title for panel in panels)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<!-- Drawn by {escape(made_by)} -->",
            f"<style>\n{STYLE}</style>",
            f'<rect class="paper" width="{width}" height="{height}" rx="6"/>',
            *body,
            "</svg>\n",
        ]
    )


def _panel(panel: Panel, left: float) -> Iterator[str]:
    assert 0 < len(panel.series) <= SERIES_MAX
    xs = [x for series in panel.series for x, _ in series.points]
    ys = [y for series in panel.series for _, y in series.points]
    across = _log_axis(min(xs), max(xs))
    up = _log_axis(min(ys), max(ys)) if panel.y_is_log else _axis_from_0(max(ys))

    def x(value: float) -> float:
        return left + across.share(value) * PANEL_WIDTH

    def y(value: float) -> float:
        return TOP + (1 - up.share(value)) * PANEL_HEIGHT

    yield f'<text class="title" x="{left:.1f}" y="20">{escape(panel.title)}</text>'
    yield from _keys(panel.series, left)
    yield from _vertical_marks(across, x)
    for mark in up.marks:
        at = y(mark)
        yield (
            f'<line class="rule" x1="{left:.1f}" x2="{left + PANEL_WIDTH:.1f}" '
            f'y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text class="end" x="{left - 6:.1f}" y="{at + 4:.1f}">{_label(mark)}</text>'
        )
    yield (
        f'<rect class="frame" x="{left:.1f}" y="{TOP}" width="{PANEL_WIDTH}" '
        f'height="{PANEL_HEIGHT}"/>'
    )
    middle, bottom = left + PANEL_WIDTH / 2, TOP + PANEL_HEIGHT
    yield (
        f'<text class="middle" x="{middle:.1f}" y="{bottom + 40}">{escape(panel.x_label)}</text>'
    )
    yield (
        f'<text class="middle" transform="translate({left - 48:.1f} {TOP + PANEL_HEIGHT / 2}) '
        f'rotate(-90)">{escape(panel.y_label)}</text>'
    )
    for number, series in enumerate(panel.series):
        yield from _line(number, [(x(one), y(other)) for one, other in series.points])


def _keys(series: Sequence[Series], left: float) -> Iterator[str]:
    in_a_line = 1 if any(len(one.name) > NAME_LETTERS_OF_HALF for one in series) else 2
    assert len(series) <= in_a_line * KEY_LINES_MAX
    for number, one in enumerate(series):
        row, column = divmod(number, in_a_line)
        x, y = left + column * PANEL_WIDTH / 2, 38 + row * 16
        yield from _line(number, [(x, y - 4), (x + 11, y - 4), (x + 22, y - 4)], at=(1,))
        yield f'<text x="{x + 28:.1f}" y="{y}">{escape(one.name)}</text>'


def _vertical_marks(axis: _Axis, x: object) -> Iterator[str]:
    assert callable(x)
    bottom = TOP + PANEL_HEIGHT
    for mark in axis.marks:
        at = x(mark)
        yield (
            f'<line class="rule" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}"/>'
            f'<text class="middle" x="{at:.1f}" y="{bottom + 18}">{_label(mark)}</text>'
        )


def _line(
    number: int, points: Sequence[tuple[float, float]], at: Sequence[int] | None = None
) -> Iterator[str]:
    """With a mark at each point, of another shape for each line: colours are not for everybody."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline class="c{number} line" points="{path}"/>'
    for index in range(len(points)) if at is None else at:
        x, y = points[index]
        shapes = (
            f"M{x - 3.5:.1f} {y:.1f}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
            f"M{x - 3.5:.1f} {y - 3.5:.1f}h7v7h-7z",
            f"M{x:.1f} {y - 4.5:.1f}l4.5 8h-9z",
            f"M{x:.1f} {y - 4.5:.1f}l4.5 4.5l-4.5 4.5l-4.5 -4.5z",
        )
        yield f'<path class="c{number}" d="{shapes[number]}"/>'


def _log_axis(least: float, most: float) -> _Axis:
    """To whole decades where there are many, else to the next of 1, 2 and 5."""
    assert 0 < least <= most
    steps = (1, 2, 5) if log10(most / least) < FEW_DECADES else (1,)
    marks = [
        step * 10.0**power
        for power in range(floor(log10(least)) - 1, ceil(log10(most)) + 2)
        for step in steps
    ]
    first = max(mark for mark in marks if mark <= least * 1.0001)
    last = min(mark for mark in marks if mark >= most * 0.9999 and mark > first)
    return _Axis(first, last, True, tuple(mark for mark in marks if first <= mark <= last))


def _axis_from_0(most: float) -> _Axis:
    if most <= 0:
        return _Axis(0.0, 1.0, False, (0.0, 1.0))
    size = 10.0 ** floor(log10(most / 4))
    step = next(size * each for each in STEPS if most / (size * each) <= 5)
    count = ceil(most / step * 0.9999)
    return _Axis(0.0, count * step, False, tuple(step * number for number in range(count + 1)))


def _label(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{round(value, 9):g}"
