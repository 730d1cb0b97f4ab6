"""`tidegate run`: the configuration from all its sources, then the daemon."""

import argparse
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gateway.cli.exit_codes import ExitCode
from gateway.cli.output import complain
from gateway.config import ConfigError, Configuration, load
from gateway.config.keys import LOG_FORMAT, LOG_LEVEL

USUAL_PATH = Path("/etc/tidegate/config.toml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help=f"configuration file; without it {USUAL_PATH} if there is one, else defaults",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        dest="overrides",
        action="append",
        default=[],
        help="set one key before file and environment, such as upstream.url=mqtt://10.0.0.5; "
        "may be repeated",
    )
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
    """A missing file is a warning only when nobody named one. The daemon logs the warnings."""
    overrides = list(arguments.overrides)
    if arguments.log_level is not None:
        overrides.append(f"log.level={arguments.log_level}")
    if arguments.log_format is not None:
        overrides.append(f"log.format={arguments.log_format}")
    path = arguments.config
    if path is None and _may_exist(usual_path):
        path = usual_path
    configuration = load(path, environment=environment, overrides=overrides)
    if path is not None:
        return configuration
    notice = f"no --config and no {usual_path}: running on defaults; `tidegate init` writes a file"
    return replace(configuration, warnings=(notice, *configuration.warnings))


def _may_exist(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a folder we may not enter: reading the file will say so
        return True
