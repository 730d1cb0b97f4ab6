"""`report`: a day of the tables as one HTML page, made without Spark."""

from __future__ import annotations

import argparse
import importlib.util
from datetime import date
from pathlib import Path

from spark_ingest.cli.arguments import day, path
from spark_ingest.cli.exit_codes import ExitCode, VerbError, of_os_error
from spark_ingest.cli.sources import add_source_arguments, settings_from
from spark_ingest.installing import brings

HELP = "draw a day of the tables on one page: values, completeness, gaps, silences"
EXAMPLE = "python -m spark_ingest report --config ingest.toml --day 2026-11-20 --output day.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source_arguments(parser)
    parser.add_argument("--lake", type=path, metavar="DIR", help="instead of a configuration")
    parser.add_argument("--day", type=day, metavar="DAY", help="default: the fullest one")
    parser.add_argument(
        "--output", type=path, default=Path("day.html"), metavar="FILE", help="default day.html"
    )


def run(arguments: argparse.Namespace) -> int:
    if importlib.util.find_spec("deltalake") is None:
        raise VerbError(
            ExitCode.UNAVAILABLE,
            "the tables are Delta, and deltalake is not installed:  "
            f"{brings('spark', 'deltalake')}",
        )
    lake = arguments.lake or settings_from(arguments, collects=False).lake.folder
    draw(lake.absolute(), arguments.day, arguments.output)
    return ExitCode.OK


def draw(lake: Path, of_day: date | None, output: Path) -> None:
    """Raises VerbError."""
    from deltalake.exceptions import DeltaError

    from spark_ingest.report.day import NoDayError, newest_day, read_day
    from spark_ingest.report.page import page_of

    try:
        found = read_day(lake, of_day or newest_day(lake))
        output.write_text(page_of(found, lake), encoding="utf-8")
    except (NoDayError, DeltaError) as error:
        raise VerbError(ExitCode.FAILURE, str(error)) from None
    except OSError as error:
        raise of_os_error(error, str(error.filename or output)) from None
    print(f"{found.day} is in {output}; open it with a browser")
