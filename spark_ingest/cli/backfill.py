"""`backfill`: what a batch has done, done again: rollups from bronze, quarantine decoded again."""

from __future__ import annotations

import argparse
from datetime import date

from spark_ingest.cli.arguments import day
from spark_ingest.cli.exit_codes import ExitCode
from spark_ingest.cli.with_spark import (
    add_spark_arguments,
    routes_of,
    spark_session,
    spark_settings,
)

HELP = "build rollups again from bronze, or decode what is in quarantine once more"
EXAMPLE = "python -m spark_ingest backfill rollups --from 2026-11-01 --to 2026-11-30"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spark_arguments(parser)
    parser.add_argument(
        "what", choices=("rollups", "quarantine"),
        help="rollups: from bronze, for days of measurement; quarantine: by the schemas that the "
        "configuration has now, what is good by them goes to bronze, rollups and routes",
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="first", type=day, default=date.min, metavar="DAY",
        help="of rollups: the first day, default all",
    )  # fmt: skip
    parser.add_argument(
        "--to", dest="last", type=day, default=date.max, metavar="DAY",
        help="of rollups: the last day, default all",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    settings = spark_settings(arguments)
    lake = settings.lake.folder.absolute()
    with spark_session(settings) as spark:
        from spark_ingest.collect import assembly
        from spark_ingest.spark.upkeep import Upkeep
        from spark_ingest.tables.checkpoint import Checkpoint
        from spark_ingest.tables.tables import checkpoint_folder

        upkeep = Upkeep(spark, lake, routes_of(settings))
        with Checkpoint(checkpoint_folder(lake, settings.spark.name)) as checkpoint:
            if arguments.what == "rollups":
                rows = upkeep.rebuild_rollups(checkpoint, arguments.first, arguments.last)
                for name, count in rows.items():
                    print(f"{name}: {count} rows")
            else:
                replayed = upkeep.replay_quarantine(
                    checkpoint, assembly.schema_options(settings), assembly.row_options(settings)
                )
                print(f"{replayed.good} values are good now, {replayed.left} stay in quarantine")
    return ExitCode.OK
