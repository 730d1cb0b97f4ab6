"""Where a verb's configuration comes from: its arguments, and the usual file without them."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gateway.cli.called import runnable
from gateway.cli.output import print_error
from gateway.config import ConfigError, Configuration, Origin, Problem, load
from gateway.config.regular_file import last_opened
from gateway.host.side_thread import OverdueError, within

R = TypeVar("R")

# A disk that sleeps wakes up within that; one that takes longer does not answer at all.
READ_S_MAX = 10.0
USUAL_PATH = Path("/etc/tidegate/config.toml")


class OverdueConfigError(ConfigError):
    """No mistake in the configuration: the disk or the network that has it does not answer."""

    def __init__(self, path: Path | None) -> None:
        origin = Origin("the configuration" if path is None else str(path))
        message = f"could not be read within {READ_S_MAX:.0f} s: its disk does not answer"
        super().__init__([Problem(origin, None, message)])


def add_source_arguments(parser: argparse.ArgumentParser, *, is_repeated: bool = False) -> None:
    """`is_repeated`: for an action of the verb, behind which they may stand as well."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        default=argparse.SUPPRESS if is_repeated else None,
        help=f"configuration file; without it {USUAL_PATH} if there is one, else defaults",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        dest="overrides_of_action" if is_repeated else "overrides",
        action="append",
        default=[],
        help="set one key before file and environment, such as upstream.url=mqtt://10.0.0.5; "
        "may be repeated",
    )


def configuration_of(
    arguments: argparse.Namespace, environment: Mapping[str, str]
) -> Configuration:
    """For verbs that have these arguments alone."""
    overrides = [*arguments.overrides, *getattr(arguments, "overrides_of_action", ())]
    return in_time(lambda: configuration_from(arguments.config, overrides, environment))


def usable_configuration(arguments: argparse.Namespace) -> Configuration | None:
    """With the variables of this process; None if it is wrong, and then why is printed."""
    try:
        return configuration_of(arguments, os.environ)
    except ConfigError as error:
        print_error(str(error))
        return None


def in_time(read: Callable[[], R]) -> R:
    """Raises OverdueConfigError when a file of it cannot be read within READ_S_MAX."""
    try:
        return within(READ_S_MAX, read, "configuration")
    except OverdueError:
        raise OverdueConfigError(last_opened()) from None


def configuration_from(
    path: Path | None,
    overrides: Sequence[str],
    environment: Mapping[str, str],
    usual_path: Path = USUAL_PATH,
) -> Configuration:
    """A missing file is a warning only when nobody named one."""
    path = used_path(path, usual_path)
    configuration = load(path, environment=environment, overrides=overrides)
    if path is not None:
        return configuration
    notice = f"no --config and no {usual_path}: running on defaults; `tidegate init` writes a file"
    return replace(configuration, warnings=(runnable(notice), *configuration.warnings))


def used_path(path: Path | None, usual_path: Path = USUAL_PATH) -> Path | None:
    """The file that is read: the one that was named, or the usual one if it is there."""
    return usual_path if path is None and _may_exist(usual_path) else path


def _may_exist(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a folder we may not enter: reading the file will say so
        return True
