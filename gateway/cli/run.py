"""`tidegate run`: the configuration from all its sources, then the daemon."""

import argparse
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from gateway.app.exit_codes import ExitCode
from gateway.app.service.notify import ServiceManager
from gateway.cli.called import runnable
from gateway.cli.output import print_error
from gateway.cli.sources import (
    USUAL_PATH,
    OverdueConfigError,
    add_source_arguments,
    configuration_from,
    in_time,
    used_path,
)
from gateway.config import ConfigError, Configuration, page_address
from gateway.config.keys import LOG_FORMAT, LOG_LEVEL
from gateway.host import compiled
from gateway.host.limits import LimitError, make_ready
from gateway.host.needs import DESCRIPTORS_MIN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source_arguments(parser)
    parser.add_argument("--log-level", choices=LOG_LEVEL.words, help="same as --set log.level=...")
    parser.add_argument(
        "--log-format", choices=LOG_FORMAT.words, help="same as --set log.format=..."
    )

    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="if the configuration is wrong, end with exit code 78 instead of showing what is "
        "wrong on the status page until the file is fixed",
    )


def run(arguments: argparse.Namespace) -> int:
    os.umask(0o077)  # whatever is written is for this user alone
    try:
        make_ready(DESCRIPTORS_MIN)
    except LimitError as error:
        print_error(f"tidegate run: {error}")
        return ExitCode.UNAVAILABLE
    form = compiled.use(os.environ)  # first: a page for a wrong configuration imports some of it
    manager = ServiceManager.of(os.environ, os.getpid())
    try:
        configuration = in_time(lambda: configuration_for(arguments, os.environ))
    except OverdueConfigError as error:
        print_error(str(error))
        return ExitCode.UNAVAILABLE  # a supervisor tries again
    except ConfigError as error:
        if arguments.no_wait:
            print_error(str(error))
            return ExitCode.CONFIGURATION
        _report(str(error))
        fixed = _fixed(arguments, error, manager)
        if fixed is None:
            return ExitCode.CONFIGURATION
        configuration = fixed
    from gateway.app.daemon import serve

    code = serve(configuration, manager, lambda: configuration_for(arguments, os.environ), form)
    if code == ExitCode.RESTART and not manager.is_there:
        _start_again()
    return code


def _start_again() -> None:
    """In this process, as there is no service manager that would: a container may be left stopped
    by its engine, and a terminal has none.
    """
    for handler in logging.getLogger().handlers:
        handler.flush()
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _fixed(
    arguments: argparse.Namespace, error: ConfigError, manager: ServiceManager
) -> Configuration | None:
    """The configuration once its file is right, if waiting for that can help."""
    from gateway.admin.http.listening import AdminError
    from gateway.app.safe_mode import SafeMode, can_be_fixed

    path = used_path(arguments.config)
    if path is None or not can_be_fixed(error, path):
        return None
    overrides = _overrides(arguments)
    listen = page_address(path, environment=os.environ, overrides=overrides)
    if listen is None:
        return None
    safe_mode = SafeMode(
        load=lambda: configuration_for(arguments, os.environ),
        path=path,
        error=error,
        report=_report,
        manager=manager,
    )
    try:
        return safe_mode.wait(listen)
    except AdminError as trouble:
        _report(str(trouble))
        return None


def _report(text: str) -> None:
    """As `print_error` does, but without waiting for a terminal or pipe that is not read: the page
    that shows the same could not be reached, and SIGTERM would do nothing.
    """
    from gateway.admin.log.logs import say

    say(runnable(text))


def configuration_for(
    arguments: argparse.Namespace, environment: Mapping[str, str], usual_path: Path = USUAL_PATH
) -> Configuration:
    """The daemon logs its warnings."""
    return configuration_from(arguments.config, _overrides(arguments), environment, usual_path)


def _overrides(arguments: argparse.Namespace) -> list[str]:
    overrides = list(arguments.overrides)
    if arguments.log_level is not None:
        overrides.append(f"log.level={arguments.log_level}")
    if arguments.log_format is not None:
        overrides.append(f"log.format={arguments.log_format}")
    return overrides
