"""Measure the ingest, as ratios within one run: `python -m tests.spark_ingest.bench [PART ...]`.

What it prints is the table of docs/spark.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from tests.spark_ingest.bench import backlog

PARTS = ("backlog", "scan", "freshness")
REPEATS = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark_ingest.bench")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--messages", type=int, default=60_000, help="of the backlog")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the lake")
    parser.add_argument("--seconds", type=int, default=60, help="of freshness")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no part is called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    sys.stdout.write("| what | measured | goal |\n|---|---|---|\n")
    for part in asked.parts or PARTS:
        for line in MEASURES[part](asked):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    return 0


def _backlog(asked: argparse.Namespace) -> Iterator[str]:
    """In turns, so that a busy minute of the machine is everybody's."""
    rates: dict[str, list[float]] = {kind: [] for kind in backlog.KINDS}
    for _ in range(REPEATS):
        for kind in backlog.KINDS:
            rates[kind].append(backlog.rate(kind, asked.messages))
    ours, forgetful, paho = (median(rates[kind]) for kind in backlog.KINDS)
    yield f"| collector, {asked.messages} messages that waited | {ours:,.0f} messages/s | |"
    yield f"| against the same with paho | {ours / paho:.1f} times ({paho:,.0f}/s) | ≥ 2 |"
    yield f"| against the same without fsync | {ours / forgetful:.2f} | ≥ 0.9 |"


def _scan(asked: argparse.Namespace) -> Iterator[str]:
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
    slower = max(0.0, 1 - found["repeated"] / ours)
    yield f"| gwlog, {rows:,} rows, all columns | {ours:,.0f} rows/s | |"
    yield f"| against Spark's own Parquet source | {ours / found['own']:.2f} | ≥ 0.5 |"
    times = found["six"] / found["tuples"]
    yield f"| six columns of it, against a list of rows in the driver | {times:.1f} times | ≥ 5 |"
    yield f"| removing 1 % repeats | {slower:.1%} slower | ≤ 5 % |"
    yield f"| lake to bronze and all rollups | {job:,.0f} rows/s | |"


def _freshness(asked: argparse.Namespace) -> Iterator[str]:
    from tests.spark_ingest.bench import freshness

    found = freshness.latencies(asked.seconds)
    cuts = quantiles(found, n=100)
    yield f"| published to committed, trigger 2 s, median | {cuts[49]:.1f} s | |"
    yield f"| 95th percentile | {cuts[94]:.1f} s | ≤ 5 s |"


MEASURES = {"backlog": _backlog, "scan": _scan, "freshness": _freshness}

if __name__ == "__main__":
    sys.exit(main())
