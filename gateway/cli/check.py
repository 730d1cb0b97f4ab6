"""`tidegate check`: what `tidegate run` would make of a file, without running."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from gateway.app.exit_codes import ExitCode
from gateway.cli.output import print_error, print_line
from gateway.cli.sources import in_time
from gateway.config import ConfigError, Configuration, Problem, load
from gateway.config.listing import as_toml, entries
from gateway.config.spelling import dotted

SCHEMA = "tidegate.check/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="configuration file")
    parser.add_argument(
        "--show", action="store_true", help="also what is in force, as TOML, and who set each key"
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON, on stdout")


def run(arguments: argparse.Namespace) -> int:
    """The environment counts, as it does for `tidegate run`."""
    try:
        configuration = in_time(lambda: load(arguments.file, environment=os.environ, overrides=()))
    except ConfigError as error:
        if arguments.json:
            _print_json(_refusal(error))
        else:
            print_error(str(error))
        return ExitCode.CONFIGURATION
    if arguments.json:
        _print_json(_approval(configuration, arguments.show))
    else:
        _print_lines(configuration, arguments.show)
    return ExitCode.OK


def _print_lines(configuration: Configuration, show: bool) -> None:
    for warning in configuration.warnings:
        print_error(f"warning: {warning}")
    if show:
        print_line("\n".join(as_toml(entries(configuration))))
    # After a listing still TOML, so that the listing can be used as a file.
    print_line("# ok" if show else "ok")


def _print_json(answer: dict[str, Any]) -> None:
    print_line(json.dumps({"schema": SCHEMA} | answer, indent=2))


def _refusal(error: ConfigError) -> dict[str, Any]:
    problems = [_described(problem) for problem in error.problems]
    return {"ok": False, "problems": problems, "problems_left_out": error.left_out, "warnings": []}


def _described(problem: Problem) -> dict[str, Any]:
    return {
        "source": problem.origin.source,
        "line": problem.origin.line,
        "column": problem.origin.column,
        "key": problem.key,
        "message": problem.message,
    }


def _approval(configuration: Configuration, show: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "ok": True,
        "problems": [],
        "problems_left_out": 0,
        "warnings": list(configuration.warnings),
    }
    if show:
        answer["settings"] = {
            dotted(entry.path): {"value": entry.value, "origin": entry.origin}
            for entry in entries(configuration)
        }
    return answer
