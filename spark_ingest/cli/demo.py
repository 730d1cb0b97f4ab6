"""`demo`: a day of made-up readings through the whole of it, and a page of what came of them.

With mosquitto on this machine they go the whole way: sensors, gateways, broker, collector. Without
it the day is written to the lake at once.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from spark_ingest.cli.arguments import path
from spark_ingest.cli.exit_codes import ExitCode, VerbError
from spark_ingest.cli.gaps import described
from spark_ingest.cli.report import draw
from spark_ingest.cli.with_spark import configure_log, must_have_spark, spark_session
from spark_ingest.config import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HELP = "play a day of made-up sensors, through gateways and a broker to tables and a page"
EXAMPLE = "python -m spark_ingest demo --output day.html --folder demo-lake"

SHOWN_HOURS = 6
# Code that is generated for so few rows takes longer to make than it saves.
SMALL = '{ "spark.sql.shuffle.partitions" = 2, "spark.sql.codegen.wholeStage" = false }'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", type=path, metavar="DIR",
        help="where to leave lake and tables, a new folder; else they are removed at the end",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=path, default=Path("day.html"), metavar="FILE",
        help="the page, default day.html",
    )  # fmt: skip
    parser.add_argument("--devices", type=_count, default=12, metavar="N", help="default 12")
    parser.add_argument(
        "--without-broker", action="store_true",
        help="write the day to the lake at once; so it is where there is no mosquitto",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    must_have_spark()
    configure_log("warning")
    if arguments.folder is not None and arguments.folder.exists():
        raise VerbError(
            ExitCode.CANNOT_CREATE, f"{arguments.folder} is there already; name a new folder"
        )
    with _folder(arguments.folder) as lake:
        of_day = _fill_lake(lake, arguments)
        settings = load(None, [f"lake.path={lake}", f"spark.conf={SMALL}"], collects=False)
        with spark_session(settings) as spark:
            fill_and_show(spark, lake)
        draw(lake, of_day, arguments.output)
        if arguments.folder is not None:
            print(f"The tables are in {lake / 'tables'}, for whatever reads Delta")
    return ExitCode.OK


def _fill_lake(lake: Path, arguments: argparse.Namespace) -> date:
    """Which day it is."""
    from spark_ingest.demo.made_up import DAY, write_day
    from spark_ingest.demo.processes import ChainError, mosquitto
    from spark_ingest.demo.sensors import NoAnswerError
    from spark_ingest.demo.story import run_day

    has_parts = mosquitto() is not None and importlib.util.find_spec("gateway") is not None
    if arguments.without_broker or not has_parts:
        if not arguments.without_broker:
            print(
                "no mosquitto here: the day begins in the lake; for one that begins at the broker:"
            )
            print("  sudo apt-get install -y mosquitto")
        made = write_day(lake, devices=arguments.devices)
        print(f"{made.readings} readings, {made.repeats} twice, in {made.segments} segments")
        return DAY
    with tempfile.TemporaryDirectory(prefix="tidegate-chain-") as folder:
        try:
            played = run_day(Path(folder), lake, arguments.devices, lambda line: print(f"- {line}"))
        except (ChainError, NoAnswerError) as error:
            raise VerbError(ExitCode.FAILURE, str(error)) from None
    print(f"{played.sent} readings were sent, {played.lost} of them lost with the broker")
    return played.day


def fill_and_show(spark: SparkSession, lake: Path) -> None:
    from pyspark.sql import functions as f

    from spark_ingest.spark import rollups
    from spark_ingest.spark.audit import SilenceOptions
    from spark_ingest.spark.job import Job, JobOptions
    from spark_ingest.spark.job_counters import JobCounters
    from spark_ingest.spark.upkeep import Upkeep

    Job(spark, JobOptions(lake, once=True), JobCounters()).run()
    upkeep = Upkeep(spark, lake)
    hours = rollups.with_statistics(rollups.merged(upkeep.frame("rollup_1h"), "hour"))
    shown = hours.where(f.col("device") == "node-1").orderBy("start")
    columns = ("start", "device", "metric", "unit", "n", "min", "mean", "p95", "max")
    shown.select(*columns).show(SHOWN_HOURS, truncate=False)
    print("In quarantine:")
    upkeep.frame("quarantine").groupBy("error", "error_detail").count().show(truncate=False)
    tables = upkeep.audit(SilenceOptions())
    found = {name: table.read().to_pylist() for name, table in tables.items()}
    for line in described(found):
        print(line)


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as temporary:
        yield Path(temporary)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"expected 1 to 1000, got {text!r}")
    return int(text)
