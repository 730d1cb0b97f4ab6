"""`tidegate check`: what `tidegate run` would make of a file, without running.

Files that the configuration names are read by the same functions as `run` reads them, so what it
would refuse at its start is refused here with the same words and exit code. Rights to the state
folder, addresses and ports are not looked at: those are of the machine and the user that run it.
Of the service's configuration root is told what the service's user may not read.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from gateway.app.credentials import refuse_unusable as refuse_unusable_files
from gateway.app.exit_codes import ExitCode
from gateway.cli.called import runnable
from gateway.cli.output import print_error, print_line
from gateway.cli.service_user import refusals
from gateway.cli.sources import USUAL_PATH, in_time, used_path
from gateway.config import ConfigError, Configuration, Origin, Problem, load
from gateway.config.listing import as_toml, entries
from gateway.config.settings import PROTECTION_SCHEMES, Settings
from gateway.config.spelling import dotted
from gateway.storage.state.errors import StateError
from gateway.storage.state.folder import refuse_unusable as refuse_unusable_folder
from gateway.transports.errors import LinkError

SCHEMA = "tidegate.check/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    file = parser.add_mutually_exclusive_group()
    file.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        nargs="?",
        help=f"configuration file; without it {USUAL_PATH}",
    )
    # As with every other verb.
    file.add_argument("--config", metavar="FILE", type=Path, help="the same")
    parser.add_argument(
        "--show", action="store_true", help="also what is in force, as TOML, and who set each key"
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON, on stdout")


def run(arguments: argparse.Namespace, usual_path: Path = USUAL_PATH) -> int:
    """The environment counts, as it does for `tidegate run`."""
    file = used_path(arguments.file or arguments.config, usual_path)
    if file is None:
        print_error(runnable(f"which file? There is no {usual_path}: `tidegate check FILE`"))
        return ExitCode.USAGE
    try:
        configuration = in_time(lambda: load(file, environment=os.environ, overrides=()))
        refused = in_time(lambda: _refused_at_the_start(configuration.settings, file))
    except ConfigError as error:
        if arguments.json:
            _print_json(_refusal(error))
        else:
            print_error(str(error))
        return ExitCode.CONFIGURATION
    if refused is not None:
        sentence, code = refused
        if arguments.json:
            _print_json(_refusal(_as_problem(sentence, file)))
        else:
            print_error(runnable(sentence))
        return code
    if arguments.json:
        _print_json(_approval(configuration, arguments.show))
    else:
        _print_lines(configuration, arguments.show)
    return ExitCode.OK


def _refused_at_the_start(settings: Settings, file: Path) -> tuple[str, ExitCode] | None:
    """What `run` would log as its last line, and how it would end; of the service's configuration,
    also what its user may not read, though root does.
    """
    try:
        refuse_unusable_files(settings, file)
        refuse_unusable_folder(settings.gateway.state_dir)
        if settings.protection.schemes != PROTECTION_SCHEMES:
            from gateway.app.protected_packets import missing_package

            missing = missing_package(settings)
            if missing is not None:
                return missing, ExitCode.CONFIGURATION
        for _, sentence, command in refusals(settings, file):
            return f"{sentence}:  {runnable(command)}", ExitCode.CONFIGURATION
    except LinkError as error:
        return str(error), ExitCode.CONFIGURATION
    except StateError as error:
        return str(error.strerror), ExitCode.CANNOT_CREATE
    return None


def _as_problem(sentence: str, file: Path) -> ConfigError:
    """The sentence begins with the key; those of `[upstream]` without the name of their table."""
    key = sentence.partition(" ")[0].rstrip(":")
    if key.startswith("/"):
        return ConfigError([Problem(Origin(str(file)), None, sentence)])
    key = key if "." in key else f"upstream.{key}"
    return ConfigError([Problem(Origin(str(file)), key, sentence)])


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
