"""`tidegate buffer export`: every reading that waits as a line of JSON.

Each line has the names of the delivery tag (gw, client, epoch, seq, ts), so that who takes the
lines in can drop what the broker brings as well.
"""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

from gateway.app.exit_codes import ExitCode
from gateway.cli.buffer.on_disk import BufferError, waiting
from gateway.cli.output import print_error, put
from gateway.cli.progress import Progress
from gateway.config import Configuration
from gateway.config.settings import Settings
from gateway.host.causes import brief
from gateway.presence.readings import as_json

STDOUT = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", metavar="FILE", default=STDOUT, help="where to; stdout without it"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")


def run(arguments: argparse.Namespace, configuration: Configuration) -> int:
    settings = configuration.settings
    if arguments.output == STDOUT:
        count = _export(settings, put)
    else:
        count = to_file(
            Path(arguments.output),
            lambda write: _export(settings, write),
            is_forced=arguments.force,
        )
    print_error(f"{count} readings exported; all of them still wait")
    return ExitCode.OK


def to_file(
    path: Path, export: Callable[[Callable[[str], object]], int], *, is_forced: bool
) -> int:
    """Leaves no part of a file: what looks like an export is whole. `export` writes it, and returns
    how many readings. Raises BufferError.
    """
    try:
        mode = "w" if is_forced else "x"
        # A copy of the journal is no more for everybody than the journal.
        with open(path, mode, encoding="utf-8", opener=_private) as file:
            try:
                count = export(file.write)
                file.flush()
            except BaseException:
                if path.is_file():  # and no device or pipe
                    path.unlink()
                raise
    except FileExistsError:
        message = f"{path} is there already; --force replaces it"
        raise BufferError(message, ExitCode.CANNOT_CREATE) from None
    except PermissionError:
        message = f"no permission to write {path}"
        raise BufferError(message, ExitCode.PERMISSION) from None
    except OSError as error:
        message = f"cannot write {path}: {brief(error)}"
        raise BufferError(message, ExitCode.CANNOT_CREATE) from None
    return count


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _export(settings: Settings, write: Callable[[str], object]) -> int:
    count = 0
    progress = Progress(lambda done: f"exporting: {done} readings")
    for reading in waiting(settings.gateway.journal_dir):
        document = as_json(settings.gateway.name, reading)
        write(json.dumps(document, ensure_ascii=False) + "\n")
        count += 1
        progress.at(count)
    progress.end()
    return count
