"""`tidegate health`: what the running gateway says on /healthz, as an exit code."""

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.app.exit_codes import ExitCode
from gateway.cli.live import add_live_arguments, printable
from gateway.cli.output import print_error, print_line
from gateway.cli.sources import configuration_of
from gateway.config import ConfigError

EPILOG = """
Exit code 0: a restart would not help, whatever else is said. 1: it would.
A container engine whose image has no health check asks with it:

  podman run --health-cmd 'tidegate health' --health-on-failure restart ...
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_live_arguments(parser)
    parser.epilog = f"{parser.epilog or ''}{EPILOG}"


def run(arguments: argparse.Namespace) -> int:
    from gateway.cli import asking  # brings http.client with it

    try:
        configuration = configuration_of(arguments, os.environ)
        answer = asking.health(asking.place_of(configuration))
    except ConfigError as error:
        print_error(str(error))
        return ExitCode.CONFIGURATION
    except asking.NoAnswerError as reason:
        print_error(f"tidegate health: {reason}")
        return ExitCode.UNAVAILABLE
    if arguments.json:
        print_line(json.dumps(answer, indent=2))
    else:
        print_line("\n".join([str(answer["status"]), *_reasons(answer)]))
    return ExitCode.FAILURE if answer.get("restart_helps", True) else ExitCode.OK


def _reasons(answer: Mapping[str, Any]) -> Iterator[str]:
    checks = answer.get("checks")
    for name, check in checks.items() if isinstance(checks, dict) else ():
        reason = check.get("reason") if isinstance(check, dict) else None
        if reason:
            yield printable(f"{name}: {reason}")
