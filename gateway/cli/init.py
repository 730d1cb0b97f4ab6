"""`tidegate init`: a configuration file to start from. Never replaces one without --force."""

import argparse
from pathlib import Path

from gateway.app.exit_codes import ExitCode
from gateway.cli.output import print_error, print_line
from gateway.config.template import template
from gateway.host.causes import brief

STDOUT = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default=STDOUT, help="where to; stdout without it"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")


def run(arguments: argparse.Namespace) -> int:
    if arguments.file == STDOUT:
        print_line(template().removesuffix("\n"))
        return ExitCode.OK
    path = Path(arguments.file)
    try:
        write = _replace if arguments.force else _create
        write(path)
    except (FileExistsError, IsADirectoryError):
        there = "is a folder" if path.is_dir() else "is there already; --force replaces it"
        return _fail(f"{path} {there}", ExitCode.CANNOT_CREATE)
    except PermissionError:
        return _fail(f"no permission to write {path}", ExitCode.PERMISSION)
    except FileNotFoundError:
        message = f"the folder {path.parent} does not exist; mkdir -p {path.parent} makes it"
        return _fail(message, ExitCode.CANNOT_CREATE)
    except OSError as error:
        return _fail(f"cannot write {path}: {brief(error)}", ExitCode.CANNOT_CREATE)
    print_error(f"{path} is written; next: tidegate check {path}")
    return ExitCode.OK


def _create(path: Path) -> None:
    """Creates or fails, with no moment between looking and writing; leaves no half of a file."""
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(template())
            file.flush()
        except OSError:
            path.unlink()
            raise


def _replace(path: Path) -> None:
    path.write_text(template(), encoding="utf-8")


def _fail(message: str, code: ExitCode) -> int:
    print_error(f"tidegate init: {message}")
    return code
