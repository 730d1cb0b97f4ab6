"""`--config FILE --set TABLE.KEY=VALUE`, which every verb that needs a configuration takes."""

from __future__ import annotations

import argparse
from pathlib import Path

from spark_ingest.cli.arguments import path
from spark_ingest.cli.exit_codes import ExitCode, VerbError
from spark_ingest.config import ConfigError, Settings, load

USUAL_FILE = Path("ingest.toml")


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=path, default=USUAL_FILE, metavar="FILE",
        help=f"the configuration, default {USUAL_FILE}; `init` prints one",
    )  # fmt: skip
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
        help="replaces what the file says; may be repeated",
    )  # fmt: skip


def settings_from(arguments: argparse.Namespace, *, collects: bool = True) -> Settings:
    try:
        return load(arguments.config, arguments.overrides, collects=collects)
    except ConfigError as error:
        raise VerbError(ExitCode.CONFIGURATION, str(error)) from None
