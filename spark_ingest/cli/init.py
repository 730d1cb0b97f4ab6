"""`init`: a configuration with all keys, on stdout."""

from __future__ import annotations

import argparse

from spark_ingest.cli.exit_codes import ExitCode
from spark_ingest.config.template import template

HELP = "print a configuration with every key explained"
EXAMPLE = "python -m spark_ingest init >ingest.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(_arguments: argparse.Namespace) -> int:
    print(template(), end="")
    return ExitCode.OK
