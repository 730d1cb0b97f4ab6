"""What one more client, topic or subscription makes a message cost.

    python -m tests.bench.growth [--quick] [--write-docs] [--json FILE]

In the engine, in process (crowd.py), with 10 to 100,000 of them; in a real gateway at 5,000
readings a second, with up to 20,000 active clients; and when it starts, with up to 100,000 sessions
in its state. Flat, logarithmic or linear is judged from the figures (verdict.py).
"""

from __future__ import annotations

import argparse
import gc
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gateway.core.engine import Engine, EngineOptions
from gateway.core.state_records import Change, State, SubscriptionRecord, TopicRecord
from gateway.storage.state.folder import open_state
from tests.bench import generator, part
from tests.bench.crowd import CLIENTS_OF_MANY, Crowd
from tests.bench.gateway_process import DEFAULT_COMMAND
from tests.bench.goals import Outcome
from tests.bench.measurement import MeasurementError
from tests.bench.measuring import Request, measure
from tests.bench.plot import Panel, Series, drawing
from tests.bench.running import Setting
from tests.bench.scenarios import Scenario
from tests.bench.state_cost import LINKS, client, session
from tests.bench.table import NOTHING, Table, number
from tests.bench.verdict import Growth, growth, whole_ratio, worst_tenfold
from tests.support.engine_bench import UPSTREAM

SIZES = (10, 100, 1000, 10_000, 100_000)
REAL_SIZES = (100, 1000, 10_000, 20_000)
STORED_SIZES = (1000, 10_000, 100_000)
PASSES, ROUNDS, REPEATS, SECONDS, LOADS = 5, 7, 3, 5.0, 3
RATE_PER_S = 5000
FILES_BESIDE = 64  # of the generator, beside the sockets of its clients
LIMITS = """\
connects_per_s_max = 1000000
connects_at_once_max = 1000000
unproven_clients_max = 1000000
"""
PROMISED = "flat or logarithmic"

Costs = tuple[tuple[float, float], ...]
Cost = tuple[tuple[str, str], float]  # of what, by what; microseconds
Measured = Callable[[int], Iterable[Cost]]  # of a size


@dataclass(frozen=True, slots=True)
class Curve:
    what: str
    over: str
    costs: Costs  # pairs of a number and microseconds

    @property
    def growth(self) -> Growth:
        return growth(self.costs)

    @property
    def outcome(self) -> Outcome:
        return Outcome.FAIL if self.growth is Growth.LINEAR else Outcome.PASS


READING, MESSAGE, REAL, LOADED = (
    "a reading up, engine",
    "a message down, engine",
    f"a reading up at {RATE_PER_S:,}/s, whole gateway",
    "a session when the gateway starts",
)


def best_of(passes: int, sizes: Sequence[int], measured: Measured) -> Iterator[Curve]:
    """What each costs where the machine was kindest: all sizes are measured in turns, as a
    neighbour who takes the caches stays for longer than one of them.
    """
    best: dict[tuple[str, str], dict[float, float]] = {}
    for _ in range(passes):
        for size in sizes:
            for name, cost in measured(size):
                costs = best.setdefault(name, {})
                costs[size] = min(cost, costs.get(size, cost))
    for (what, over), costs in best.items():
        yield Curve(what, over, tuple(costs.items()))


def in_the_engine(size: int, rounds: int) -> Iterator[Cost]:
    part.say(f"an engine with {size:,} clients, then topics, then filters")
    crowd = Crowd(size)
    yield (READING, "clients"), crowd.reading_us(rounds)
    crowd = Crowd(CLIENTS_OF_MANY, -(-size // CLIENTS_OF_MANY))
    crowd.register(size)
    yield (READING, "topics"), crowd.reading_on_topic_us(rounds)
    crowd = Crowd(CLIENTS_OF_MANY, -(-size // CLIENTS_OF_MANY))
    crowd.subscribe(size)
    down = crowd.message_us(rounds)
    yield (READING, "subscriptions"), crowd.reading_us(rounds)
    yield (MESSAGE, "subscriptions"), down


def possible(clients: int) -> int:
    """The generator has a socket for each of its clients, and a process so many files at most."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY or clients <= most - FILES_BESIDE:
        return clients
    return (most - FILES_BESIDE) // 100 * 100


def active(clients: int) -> Scenario:
    """What the generator may have no sockets for is beside it, and sends as often."""
    generated = possible(clients)
    rate_per_s = RATE_PER_S * generated / clients
    return Scenario(
        name=f"active-{clients}",
        title=f"QoS 1 up, {clients:,} active clients, {RATE_PER_S:,}/s",
        arguments=(
            "pub",
            "--qos",
            "1",
            "--clients",
            str(generated),
            "--rate",
            f"{rate_per_s:.0f}",
            "--connect-timeout",
            "60",
        ),
        clients=generated,
        sensors_beside=clients - generated,
        interval_s=clients / RATE_PER_S,
        gateway_config=LIMITS,
        clients_max=clients + 10,
    )


def in_a_gateway(sizes: Sequence[int], repeats: int, seconds: float) -> Curve:
    setting = Setting(generator.build(), DEFAULT_COMMAND, seconds, mqtt_version=5)
    rows = measure(Request(tuple(map(active, sizes)), repeats, setting))
    costs = []
    for size, row in zip(sizes, rows, strict=True):
        result = row.result
        if result is None or result.faults.not_connected or result.figures.gateway_cpu_us is None:
            why = row.why_failed if result is None else "not all of them could connect"
            raise MeasurementError(f"{size:,} active clients: {why}")
        costs.append((float(size), result.figures.gateway_cpu_us))
    return Curve(REAL, "clients", tuple(costs))


def saved(count: int) -> Iterator[Change]:
    """Sleepers, each with a topic registered and a filter of its own."""
    for at in range(count):
        yield session(at, State.ASLEEP)
        yield TopicRecord(client(at), 1, f"field/{at}/temperature")
        yield SubscriptionRecord(client(at), f"field/{at}/valve", 1)


def load_us(count: int, repeats: int) -> float:
    """Of CPU for a session: from the database to a session in the engine."""
    folder = Path(tempfile.mkdtemp(prefix="growth-"))
    try:
        state = open_state(folder, LINKS)
        state.store.commit(list(saved(count)))
        state.release()
        return min(_load_once(folder, count) for _ in range(repeats)) / count * 1e6
    finally:
        shutil.rmtree(folder)


def _load_once(folder: Path, count: int) -> float:
    gc.collect()  # a gateway that starts has nothing else to look through
    gc.disable()  # as it does
    try:
        began = time.process_time()
        state = open_state(folder, LINKS)
        engine = Engine(EngineOptions(UPSTREAM, saves=True))
        engine.restore(state.saved, 0.0)
        taken = time.process_time() - began
    finally:
        gc.enable()
    assert len(engine.sessions) == count
    state.release()
    return taken


def at_the_start(size: int, repeats: int) -> Iterator[Cost]:
    part.say(f"a state with {size:,} sessions is loaded")
    yield (LOADED, "sessions in the state"), load_us(size, repeats)


def table(curves: Sequence[Curve]) -> Table:
    sizes = sorted({size for curve in curves for size, _ in curve.costs})
    return Table(
        "CPU µs of one, by how many there are",
        (
            "what",
            "by",
            *(f"{size:,.0f}" for size in sizes),
            "largest / smallest",
            "worst tenfold",
            "growth",
            f"goal: {PROMISED}",
        ),
        tuple(_line(curve, sizes) for curve in curves),
    )


def _line(curve: Curve, sizes: Sequence[float]) -> tuple[str, ...]:
    costs = dict(curve.costs)
    return (
        curve.what,
        curve.over,
        *(number(costs[size], 2) if size in costs else NOTHING for size in sizes),
        f"{whole_ratio(curve.costs):.2f}",
        f"{worst_tenfold(curve.costs):.2f}",
        curve.growth.value,
        curve.outcome.value,
    )


def plots(curves: Sequence[Curve]) -> dict[str, tuple[str, str]]:
    """A file for each number that grows."""
    drawn = {}
    for over in dict.fromkeys(curve.over for curve in curves):
        lines = tuple(Series(curve.what, curve.costs) for curve in curves if curve.over == over)
        title = f"CPU time of one, by {over}"
        panel = Panel(title, over, "µs", lines)
        file = f"growth_{over.partition(' ')[0]}.svg"
        drawn[file] = (title, drawing((panel,), "tests.bench.growth"))
    return drawn


def remarks(curves: Sequence[Curve]) -> tuple[str, ...]:
    met = sum(curve.outcome is Outcome.PASS for curve in curves)
    active_clients = [int(curve.costs[-1][0]) for curve in curves if curve.what == REAL]
    loaded = [curve.costs[-1] for curve in curves if curve.what == LOADED]
    said = [f"{met} of {len(curves)} costs are {PROMISED}."]
    said += [
        f"{count - possible(count):,} of the {count:,} active clients are sensors of "
        "`tidegate simulate`, as the generator may have no more sockets here."
        for count in active_clients
        if possible(count) < count
    ]
    said += [
        f"{count:,.0f} sessions are loaded in {count * cost / 1e6:.1f} s." for count, cost in loaded
    ]
    return (" ".join(said),)


def result(curves: Sequence[Curve]) -> part.Result:
    figures = {
        "curves": [
            {
                "what": curve.what,
                "by": curve.over,
                "cpu_us": [list(pair) for pair in curve.costs],
                "growth": curve.growth.value,
            }
            for curve in curves
        ]
    }
    return part.Result((table(curves),), figures, plots(curves), remarks(curves))


def _measure(asked: argparse.Namespace) -> part.Result:
    if asked.quick:
        curves = [
            *best_of(1, SIZES[:3], partial(in_the_engine, rounds=1)),
            in_a_gateway(REAL_SIZES[:2], 1, 1.0),
            *best_of(1, (100, 1000), partial(at_the_start, repeats=1)),
        ]
    else:
        curves = [
            *best_of(PASSES, SIZES, partial(in_the_engine, rounds=ROUNDS)),
            in_a_gateway(REAL_SIZES, REPEATS, SECONDS),
            *best_of(PASSES, STORED_SIZES, partial(at_the_start, repeats=LOADS)),
        ]
    return result(curves)


def main(words: Sequence[str]) -> int:
    made = part.parser("tests.bench.growth", "Measure how costs grow with clients and topics.")
    return part.run("growth", made, words, _measure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
