"""Plots of a board's runs, as SVG: a row for each scenario, a panel for each question.

How long from the air to the broker (median, 95 of 100, and the longest, on a logarithmic scale);
how long awake for a reading; how many bytes on the air for a reading, up and down.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence

from hil.rig.run import Result

ROW, TOP, BOTTOM = 18, 46, 22
NAMES, PANEL, GAP, RIGHT = 170, 230, 36, 30
WIDTH = NAMES + 3 * PANEL + 2 * GAP + RIGHT
LEAST_MS, MOST_MS = 0.1, 100_000.0
NICE = (1, 2, 5, 10)


def costs(results: Sequence[Result]) -> str:
    height = TOP + ROW * len(results) + BOTTOM
    body = "".join((*_names(results), *_latencies(results), *_awake(results), *_octets(results)))
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="latency, time awake and bytes on the air by scenario">{body}</svg>'
    )


def _y(at: int) -> float:
    return TOP + ROW * at + ROW / 2


def _left(panel: int) -> float:
    return NAMES + panel * (PANEL + GAP)


def _names(results: Sequence[Result]) -> Iterator[str]:
    for at in range(len(results)):
        if at % 2:
            yield f'<rect class="band" x="0" y="{TOP + ROW * at}" width="{WIDTH}" height="{ROW}"/>'
    for at, result in enumerate(results):
        name = html.escape(result.scenario)
        yield f'<text class="name" x="{NAMES - 12}" y="{_y(at) + 4}">{name}</text>'


def _title(panel: int, text: str, legend: str) -> str:
    return (
        f'<text class="title" x="{_left(panel)}" y="14">{text}</text>'
        f'<text x="{_left(panel)}" y="30">{legend}</text>'
    )


def _axis(x: float, rows: int, label: str) -> str:
    bottom = TOP + ROW * rows
    return (
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
        f'<text class="tick" x="{x:.1f}" y="{bottom + 14}">{label}</text>'
    )


def _latencies(results: Sequence[Result]) -> Iterator[str]:
    yield _title(0, "From the air to the broker", "● median   | 95 of 100   — longest")
    for exponent in range(-1, 6):
        ms = 10.0**exponent
        label = f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:g} s"
        yield _axis(_log_x(ms), len(results), label if exponent % 2 == 0 else "")
    for at, result in enumerate(results):
        numbers, y = result.numbers, _y(at)
        p50, p95 = _log_x(numbers["latency_p50_ms"]), _log_x(numbers["latency_p95_ms"])
        longest = _log_x(numbers["latency_max_ms"])
        hint = (
            f"{result.scenario}: median {numbers['latency_p50_ms']:.1f} ms, 95 of 100 within "
            f"{numbers['latency_p95_ms']:.1f} ms, longest {numbers['latency_max_ms']:.1f} ms"
        )
        yield (
            f'<g class="latency"><title>{html.escape(hint)}</title>'
            f'<line x1="{p50:.1f}" x2="{longest:.1f}" y1="{y}" y2="{y}"/>'
            f'<line x1="{p95:.1f}" x2="{p95:.1f}" y1="{y - 5}" y2="{y + 5}"/>'
            f'<circle cx="{p50:.1f}" cy="{y}" r="3.5"/></g>'
        )


def _log_x(ms: float) -> float:
    share = math.log(min(max(ms, LEAST_MS), MOST_MS) / LEAST_MS) / math.log(MOST_MS / LEAST_MS)
    return _left(0) + share * PANEL


def _awake(results: Sequence[Result]) -> Iterator[str]:
    most = _nice(max(result.numbers["awake_ms_per_reading"] for result in results))
    yield _title(1, "Awake for a reading", "milliseconds")
    yield _axis(_left(1), len(results), "0")
    yield _axis(_left(1) + PANEL, len(results), f"{most:g} ms")
    for at, result in enumerate(results):
        ms = result.numbers["awake_ms_per_reading"]
        yield _bar(1, at, 0.0, ms / most, "awake", f"{result.scenario}: {ms:.0f} ms")


def _octets(results: Sequence[Result]) -> Iterator[str]:
    both = [
        (result.numbers["octets_up_per_reading"], result.numbers["octets_down_per_reading"])
        for result in results
    ]
    most = _nice(max(up + down for up, down in both))
    yield _title(2, "On the air for a reading", "bytes, dark up, pale down")
    yield _axis(_left(2), len(results), "0")
    yield _axis(_left(2) + PANEL, len(results), f"{most:g}")
    for at, (up, down) in enumerate(both):
        hint = f"{results[at].scenario}: {up:.0f} up, {down:.0f} down"
        yield _bar(2, at, 0.0, up / most, "up", hint)
        yield _bar(2, at, up / most, down / most, "down", hint)


def _bar(panel: int, at: int, begin: float, share: float, tone: str, hint: str) -> str:
    return (
        f'<rect class="{tone}" x="{_left(panel) + begin * PANEL:.1f}" y="{_y(at) - 5}" '
        f'width="{share * PANEL:.1f}" height="10"><title>{html.escape(hint)}</title></rect>'
    )


def _nice(most: float) -> float:
    """The next round number."""
    if most <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(most))
    return next(power * step for step in NICE if power * step >= most)
