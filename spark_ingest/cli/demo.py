"""`demo`: a day of made-up readings through the whole of it, without broker and gateway."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_ingest.cli.exit_codes import ExitCode, VerbError
from spark_ingest.cli.gaps import described
from spark_ingest.cli.with_spark import configure_log, must_have_spark, spark_session
from spark_ingest.config import load

HELP = "fill tables with a day of made-up readings, with repeats, a hole and a silent sensor"
EXAMPLE = "python -m spark_ingest demo --folder demo-lake"

SHOWN_HOURS = 6
# Code that is generated for so few rows takes longer to make than it saves.
SMALL = '{ "spark.sql.shuffle.partitions" = 2, "spark.sql.codegen.wholeStage" = false }'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", type=Path, metavar="DIR",
        help="where to leave lake and tables, a new folder; else they are removed at the end",
    )  # fmt: skip
    parser.add_argument("--devices", type=_count, default=20, metavar="N", help="default 20")


def run(arguments: argparse.Namespace) -> int:
    must_have_spark()
    configure_log("warning")
    if arguments.folder is not None and arguments.folder.exists():
        raise VerbError(
            ExitCode.CANNOT_CREATE, f"{arguments.folder} is there already; name a new folder"
        )
    with _folder(arguments.folder) as lake:
        from spark_ingest.made_up import write_day

        made = write_day(lake, devices=arguments.devices)
        print(
            f"{made.readings} readings, {made.repeats} of them twice, in {made.segments} segments"
        )
        _fill_and_show(lake)
        if arguments.folder is not None:
            print(f"The tables are in {lake / 'tables'}, for whatever reads Delta")
    return ExitCode.OK


def _fill_and_show(lake: Path) -> None:
    settings = load(None, [f"lake.path={lake}", f"spark.conf={SMALL}"], collects=False)
    with spark_session(settings) as spark:
        from pyspark.sql import functions as f

        from spark_ingest.spark import rollups
        from spark_ingest.spark.audit import SilenceRules
        from spark_ingest.spark.job import Job, JobRules
        from spark_ingest.spark.job_counters import JobCounters
        from spark_ingest.spark.upkeep import Upkeep

        Job(spark, JobRules(lake, once=True), JobCounters()).run()
        upkeep = Upkeep(spark, lake)
        hours = rollups.with_statistics(rollups.merged(upkeep.frame("rollup_1h"), "hour"))
        shown = hours.where(f.col("device") == "node-1").orderBy("start")
        columns = ("start", "device", "metric", "unit", "n", "min", "mean", "p95", "max")
        shown.select(*columns).show(SHOWN_HOURS, truncate=False)
        print("In quarantine:")
        upkeep.frame("quarantine").groupBy("error", "error_detail").count().show(truncate=False)
        tables = upkeep.audit(SilenceRules())
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
