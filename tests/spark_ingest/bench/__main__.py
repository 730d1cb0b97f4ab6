"""Measure the ingest, as ratios within one run: `python -m tests.spark_ingest.bench [PART ...]`.

What it prints is the table of docs/spark.md, and all parts with --write-docs write it there. It
ends with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from tests.bench.document import write_section
from tests.bench.machine import this_machine
from tests.spark_ingest.bench import backlog
from tests.spark_ingest.bench.figures import DOCUMENT, HEAD, SECTION, Figure, section

PARTS = ("backlog", "scan", "freshness")
REPEATS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _asked(arguments)
    machine = this_machine()
    sys.stdout.write(HEAD)
    figures = []
    for part in asked.parts or PARTS:
        for figure in MEASURES[part](asked):
            figures.append(figure)
            sys.stdout.write(f"{figure.as_line()}\n")
            sys.stdout.flush()
    if asked.write_docs:
        command = "python -m tests.spark_ingest.bench --write-docs"
        write_section(section(figures, machine, command), SECTION, DOCUMENT)
    return 1 if any(figure.is_missed for figure in figures) else 0


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.spark_ingest.bench")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--messages", type=int, default=60_000, help="of the backlog")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the lake")
    parser.add_argument("--seconds", type=int, default=60, help="of freshness")
    parser.add_argument(
        "--write-docs", action="store_true", help="write the table of all parts to docs/spark.md"
    )
    asked = parser.parse_args(arguments)
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no part is called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if asked.write_docs and asked.parts:
        parser.error("--write-docs writes the whole table; name no parts with it")
    return asked


def _backlog(asked: argparse.Namespace) -> Iterator[Figure]:
    """In turns, so that a busy minute of the machine is everybody's."""
    rates: dict[str, list[float]] = {kind: [] for kind in backlog.KINDS}
    for _ in range(REPEATS):
        for kind in backlog.KINDS:
            rates[kind].append(backlog.rate(kind, asked.messages))
    ours, forgetful, paho = (median(rates[kind]) for kind in backlog.KINDS)
    yield Figure(f"collector, {asked.messages:,} messages that waited", ours, "{:,.0f} messages/s")
    yield Figure("against the same with paho", ours / paho, "{:.1f} times", least=2)
    yield Figure("against the same without fsync", ours / forgetful, least=0.9)


def _scan(asked: argparse.Namespace) -> Iterator[Figure]:
    from spark_ingest.spark.session import open_session
    from tests.spark_ingest.bench import scanning

    rows = asked.rows
    with TemporaryDirectory(prefix="bench-") as folder:
        lake, repeated = Path(folder) / "lake", Path(folder) / "repeated"
        scanning.fill(lake, rows, repeats=False)
        scanning.fill(repeated, rows, repeats=True)
        spark = open_session("bench", "local[2,4]", {})
        try:
            found = scanning.rows_per_s(
                {
                    "own": lambda: scanning.parquet(spark, lake),
                    "gwlog": lambda: scanning.gwlog(spark, lake),
                    "repeated": lambda: scanning.gwlog(spark, repeated),
                    "six": lambda: scanning.gwlog_of_six_columns(spark, lake),
                    "tuples": lambda: scanning.row_tuples(spark, rows),
                },
                rows,
            )
            job = scanning.job(spark, repeated, rows)
        finally:
            spark.stop()
    ours = found["gwlog"]
    # Of rows that were read: there are more of them in a lake with repeats.
    slower = max(0.0, 100 * (1 - 1.01 * found["repeated"] / ours))
    six = "six columns of it, against a list of rows in the driver"
    yield Figure(f"gwlog, {rows:,} rows, all columns, `local[2]`", ours, "{:,.0f} rows/s")
    yield Figure("against Spark's own Parquet source", ours / found["own"], least=0.5)
    yield Figure(six, found["six"] / found["tuples"], "{:.1f} times", least=5)
    yield Figure("removing 1 % repeats", slower, "{:.1f} % slower", most=5, unit=" %")
    yield Figure("lake to bronze and all rollups", job, "{:,.0f} rows/s")


def _freshness(asked: argparse.Namespace) -> Iterator[Figure]:
    from tests.spark_ingest.bench import freshness

    cuts = quantiles(freshness.latencies(asked.seconds), n=100)
    yield Figure("published to committed, trigger 2 s, median", cuts[49], "{:.1f} s")
    yield Figure("the same, 95th percentile", cuts[94], "{:.1f} s", most=5, unit=" s")


MEASURES = {"backlog": _backlog, "scan": _scan, "freshness": _freshness}

if __name__ == "__main__":
    sys.exit(main())
