"""`tidegate init`: a configuration file to start from. Never replaces one unless told to."""

import argparse
import sys
from pathlib import Path

from gateway.cli.exit_codes import ExitCode
from gateway.config.template import template

STDOUT = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default=STDOUT, help="where to; stdout without it"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")


def run(arguments: argparse.Namespace) -> int:
    if arguments.file == STDOUT:
        print(template(), end="")
        return ExitCode.OK
    path = Path(arguments.file)
    try:
        # "x" creates or fails, with no moment between looking and writing.
        with path.open("w" if arguments.force else "x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError:
        return _refuse(f"{path} is there already; --force replaces it", ExitCode.CANNOT_CREATE)
    except PermissionError:
        return _refuse(f"no permission to write {path}", ExitCode.PERMISSION)
    except FileNotFoundError:
        message = f"the folder {path.parent} does not exist; mkdir -p {path.parent} makes it"
        return _refuse(message, ExitCode.CANNOT_CREATE)
    except OSError as error:
        return _refuse(f"cannot write {path}: {error.strerror}", ExitCode.CANNOT_CREATE)
    print(f"{path} is written; next: tidegate check {path}", file=sys.stderr)
    return ExitCode.OK


def _refuse(message: str, code: ExitCode) -> int:
    print(f"tidegate init: {message}", file=sys.stderr)
    return code
