"""CPU per message and latency against load: the same clients at ever higher rates.

    python -m tests.bench.load_curve [--quick] [--write-docs] [--json FILE]

Open loop, QoS 1, 100 clients with one message under way each: at a given rate per second, whatever
the gateway does; beyond saturation a client waits for its turn, and what arrives is less than what
was asked for.
"""

import argparse
import sys
from collections.abc import Sequence

from tests.bench import generator, part
from tests.bench.gateway_process import DEFAULT_COMMAND
from tests.bench.goals import NEAR_40MS_SHARE_MAX
from tests.bench.measuring import Request, measure
from tests.bench.plot import Panel, Series, drawing
from tests.bench.row import Row
from tests.bench.running import Setting
from tests.bench.scenarios import Scenario
from tests.bench.table import NOTHING, Table, number, two_times

CLIENTS = 100
# From one a second and client to beyond what a gateway in Python and a mosquitto can do on 2 cores.
RATES = (100, 300, 1000, 3000, 10_000, 20_000, 40_000, 60_000, 80_000, 100_000, 150_000)
QUICK_RATES = (1000, 10_000, 150_000)
SECONDS, REPEATS = 5.0, 3
QUICK_SECONDS = 1.0
PLOT = "load_curve.svg"


def scenario(rate_per_s: int) -> Scenario:
    return Scenario(
        name=f"load-{rate_per_s}",
        title=f"{rate_per_s:,}/s",
        arguments=(
            "pub",
            "--qos",
            "1",
            "--clients",
            str(CLIENTS),
            "--rate",
            str(rate_per_s),
        ),
        clients=CLIENTS,
    )


def curve(rows: Sequence[Row]) -> Table:
    return Table(
        f"QoS 1 up, {CLIENTS} clients, by load",
        (
            "asked for",
            "messages/s",
            "gateway CPU µs",
            "mosquitto CPU µs",
            "gateway of a core",
            "PUBACK p50 / p99 ms",
            "end to end p50 / p99 ms",
            "lost",
        ),
        tuple(_line(row) for row in rows),
    )


def _line(row: Row) -> tuple[str, ...]:
    result = row.result
    if result is None:
        return (row.scenario.title, *[NOTHING] * 6, row.why_failed)
    figures = result.figures
    rate, cpu_us = figures.rate_per_s, figures.gateway_cpu_us
    return (
        row.scenario.title,
        number(rate, 0),
        number(cpu_us, 2),
        number(figures.broker_cpu_us, 2),
        NOTHING if rate is None or cpu_us is None else f"{rate * cpu_us / 1e6:.1%}",
        two_times(figures.acknowledge_p50_us, figures.acknowledge_p99_us),
        two_times(figures.end_to_end_p50_us, figures.end_to_end_p99_us),
        number(result.faults.lost, 0),
    )


def plot(rows: Sequence[Row]) -> str:
    """Over what arrived, not over what was asked for."""

    def series(name: str, figure: str, scale: float = 1.0) -> Series:
        found = [
            (result.figures.rate_per_s, getattr(result.figures, figure))
            for row in rows
            if (result := row.result) is not None
        ]
        points = [(rate, value * scale) for rate, value in found if rate and value]
        return Series(name, tuple(sorted(points)))

    x_label = "messages a second that arrived"
    return drawing(
        (
            Panel(
                "CPU time for a message, by load",
                x_label,
                "µs",
                (series("gateway", "gateway_cpu_us"), series("mosquitto", "broker_cpu_us")),
                y_is_log=True,
            ),
            Panel(
                "Time until PUBACK, by load",
                x_label,
                "ms",
                (
                    series("p50", "acknowledge_p50_us", 1e-3),
                    series("p99", "acknowledge_p99_us", 1e-3),
                ),
                y_is_log=True,
            ),
        ),
        "tests.bench.load_curve",
    )


def remarks(rows: Sequence[Row]) -> tuple[str, ...]:
    """Where the curve ends, and whether there is a step of 40 ms on it, from the figures."""
    found = [result.figures for row in rows if (result := row.result) is not None]
    most = max((figures.rate_per_s or 0.0 for figures in found), default=0.0)
    shares = [figures.share_near_40ms or 0.0 for figures in found]
    steps = sum(share > NEAR_40MS_SHARE_MAX for share in shares)
    step = "no rate has" if steps == 0 else f"{steps} of {len(found)} rates have"
    return (
        f"Most that arrived: {most:,.0f} a second; {step} more than {NEAR_40MS_SHARE_MAX:.1%} of "
        "its times near 40 ms.",
    )


def _measure(asked: argparse.Namespace) -> part.Result:
    rates = QUICK_RATES if asked.quick else RATES
    setting = Setting(
        generator=generator.build(),
        gateway_command=DEFAULT_COMMAND,
        seconds=QUICK_SECONDS if asked.quick else SECONDS,
        mqtt_version=5,
    )
    rows = measure(Request(tuple(map(scenario, rates)), 1 if asked.quick else REPEATS, setting))
    return result(rows)


def result(rows: Sequence[Row]) -> part.Result:
    plots = {}
    if any(row.outputs for row in rows):
        text = "CPU time for a message and time until PUBACK against messages a second"
        plots[PLOT] = (text, plot(rows))
    figures = {"rows": [row.as_json() for row in rows]}
    return part.Result((curve(rows),), figures, plots, remarks(rows), curve(rows[::2]))


def main(words: Sequence[str]) -> int:
    made = part.parser("tests.bench.load_curve", "Measure CPU per message and latency by load.")
    return part.run("load-curve", made, words, _measure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
