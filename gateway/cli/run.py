"""`tidegate run`: the configuration from all its sources, then the daemon."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from gateway.cli.exit_codes import ExitCode
from gateway.cli.output import complain
from gateway.cli.sources import USUAL_PATH, add_source_arguments, configuration_from
from gateway.config import ConfigError, Configuration
from gateway.config.keys import LOG_FORMAT, LOG_LEVEL


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source_arguments(parser)
    parser.add_argument("--log-level", choices=LOG_LEVEL.words, help="same as --set log.level=...")
    parser.add_argument(
        "--log-format", choices=LOG_FORMAT.words, help="same as --set log.format=..."
    )


def run(arguments: argparse.Namespace) -> int:
    try:
        configuration = configuration_for(arguments, os.environ)
    except ConfigError as error:
        complain(str(error))
        return ExitCode.CONFIGURATION
    from gateway.daemon import serve

    return serve(configuration)


def configuration_for(
    arguments: argparse.Namespace, environment: Mapping[str, str], usual_path: Path = USUAL_PATH
) -> Configuration:
    """The daemon logs its warnings."""
    overrides = list(arguments.overrides)
    if arguments.log_level is not None:
        overrides.append(f"log.level={arguments.log_level}")
    if arguments.log_format is not None:
        overrides.append(f"log.format={arguments.log_format}")
    return configuration_from(arguments.config, overrides, environment, usual_path)
