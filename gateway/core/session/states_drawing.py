"""Draws docs/states.svg from the table in `states.py`.

    python -m gateway.core.session.states_drawing


One column for each state, one row for each arrow, its inputs written on it. Rows instead of a
graph with bends: whatever the table says, no two arrows or words can lie on each other, so nobody
has to lay it out again.

Limits: inputs that lead from the same state to the same other one share a row, and the words of a
row must fit the width of the drawing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.core.session.states import TRANSITIONS, Input
from gateway.core.state_records import State

# All lengths in pixels.
COLUMN_WIDTH = 150
MARGIN = 20
HEAD_HEIGHT = 56
ROW_HEIGHT = 36
BAND_PADDING = 8
LETTER_WIDTH = 6.2  # of the 11 pixel font, on average
LOOP_WIDTH = 26

STYLE = """\
text { font: 11px system-ui, sans-serif; fill: #222; }
.state { font-weight: 600; font-size: 13px; text-anchor: middle; }
.input { text-anchor: middle; stroke: #fff; stroke-width: 3px; paint-order: stroke; }
.beside { text-anchor: start; }
.box { fill: #e7f0ee; stroke: #2b6b5f; }
.band { fill: #2b6b5f; fill-opacity: 0.06; }
.line { stroke: #bbb; stroke-dasharray: 2 4; }
.arrow { fill: none; stroke: #2b6b5f; stroke-width: 1.5; marker-end: url(#head); }
.head, .from { fill: #2b6b5f; }
.paper { fill: #fff; }
"""


@dataclass(frozen=True, slots=True)
class Arrow:
    before: State
    after: State
    inputs: tuple[Input, ...]

    @property
    def words(self) -> str:
        return ", ".join(given.value for given in self.inputs)


def arrows_of(state: State) -> list[Arrow]:
    """The arrows that leave a state, one for each state they lead to, in the table's order."""
    inputs: dict[State, list[Input]] = {}
    for given, following in TRANSITIONS[state].items():
        inputs.setdefault(following, []).append(given)
    return [Arrow(state, following, tuple(given)) for following, given in inputs.items()]


def drawing() -> str:
    bands = [(state, arrows_of(state)) for state in TRANSITIONS]
    rows = sum(len(arrows) for _, arrows in bands)
    width = 2 * MARGIN + COLUMN_WIDTH * len(TRANSITIONS)
    height = HEAD_HEIGHT + rows * ROW_HEIGHT + len(bands) * 2 * BAND_PADDING + MARGIN
    return "\n".join(_elements(bands, width, height)) + "\n"


def _elements(bands: list[tuple[State, list[Arrow]]], width: int, height: int) -> Iterator[str]:
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    yield "<title>The states of a client and the inputs that lead from one to another</title>"
    yield "<!-- Drawn by `python -m gateway.core.session.states_drawing`. -->"
    yield f"<style>\n{STYLE}</style>"
    yield '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
    yield ' orient="auto" markerUnits="userSpaceOnUse">'
    yield '<path class="head" d="M0 0L8 4L0 8z"/></marker>'
    yield f'<rect class="paper" width="{width}" height="{height}"/>'
    for state in TRANSITIONS:
        yield from _column(state, height)
    y = HEAD_HEIGHT
    for number, (_, arrows) in enumerate(bands):
        band_height = len(arrows) * ROW_HEIGHT + 2 * BAND_PADDING
        if number % 2 == 0:
            yield f'<rect class="band" y="{y}" width="{width}" height="{band_height}"/>'
        for row, arrow in enumerate(arrows, 1):
            yield from _row(arrow, y + BAND_PADDING + row * ROW_HEIGHT - ROW_HEIGHT // 4, width)
        y += band_height
    yield "</svg>"


def _x(state: State) -> int:
    return MARGIN + COLUMN_WIDTH * list(TRANSITIONS).index(state) + COLUMN_WIDTH // 2


def _column(state: State, height: int) -> Iterator[str]:
    x = _x(state)
    yield f'<line class="line" x1="{x}" y1="40" x2="{x}" y2="{height - MARGIN}"/>'
    yield f'<rect class="box" x="{x - 60}" y="12" width="120" height="28" rx="6"/>'
    yield f'<text class="state" x="{x}" y="31">{state.value}</text>'


def _row(arrow: Arrow, y: int, width: int) -> Iterator[str]:
    start, end = _x(arrow.before), _x(arrow.after)
    if start == end:
        yield f'<circle class="from" cx="{start}" cy="{y - 10}" r="3"/>'
        yield f'<path class="arrow" d="M{start} {y - 10}h{LOOP_WIDTH}V{y}H{start + 4}"/>'
        beside = f'class="input beside" x="{start + LOOP_WIDTH + 8}"'
        yield f'<text {beside} y="{y - 1}">{arrow.words}</text>'
        return
    half = len(arrow.words) * LETTER_WIDTH / 2
    middle = min(max((start + end) / 2, MARGIN + half), width - MARGIN - half)
    yield f'<circle class="from" cx="{start}" cy="{y}" r="3"/>'
    yield f'<path class="arrow" d="M{start} {y}H{end - 4 if end > start else end + 4}"/>'
    yield f'<text class="input" x="{middle:.0f}" y="{y - 6}">{arrow.words}</text>'


if __name__ == "__main__":
    sys.stdout.write(drawing())
