"""`compact`: fewer, larger files, and what is not needed is removed."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from spark_ingest.cli.arguments import hours
from spark_ingest.cli.exit_codes import ExitCode
from spark_ingest.cli.with_spark import (
    add_spark_arguments,
    routes_of,
    spark_session,
    spark_settings,
)
from spark_ingest.segments.retention import removable

HELP = "merge small files and partial rollups, also while the job runs"
EXAMPLE = "python -m spark_ingest compact --config ingest.toml --remove-segments-after 720"

# What may be read by a query that began before; Delta's own default.
VACUUM_H = 168


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spark_arguments(parser)
    parser.add_argument(
        "--vacuum-after", type=hours, default=VACUUM_H, metavar="HOURS",
        help=f"remove files of tables that no version of this age needs, default {VACUUM_H}; do "
        "not go below what the longest batch or query takes",
    )  # fmt: skip
    parser.add_argument(
        "--remove-segments-after", type=hours, metavar="HOURS",
        help="remove segments that every query has read and that are older than this",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    settings = spark_settings(arguments)
    lake = settings.lake.folder.absolute()
    with spark_session(settings) as spark:
        from spark_ingest.spark.upkeep import Upkeep

        upkeep = Upkeep(spark, lake, routes_of(settings))
        for each in upkeep.compact():
            print(f"{each.table}: {each.files_before} files, now {each.files_after}")
        print(f"{upkeep.vacuum(arguments.vacuum_after)} files removed that nothing needs")
        if arguments.remove_segments_after is not None:
            print(f"{_removed(lake, arguments.remove_segments_after)} segments removed")
    return ExitCode.OK


def _removed(lake: Path, after_h: int) -> int:
    before_us = time.time_ns() // 1000 - after_h * 3_600_000_000
    paths = list(removable(lake, before_us))
    for path in paths:
        path.unlink()
    return len(paths)
