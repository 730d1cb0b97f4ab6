"""`tidegate backup`: everything of a gateway in one file, while it runs or not."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from gateway.app.exit_codes import ExitCode
from gateway.cli.output import print_error, print_line
from gateway.cli.sources import add_source_arguments, usable_configuration, used_path
from gateway.host.causes import brief
from gateway.storage.backup.archive import BackupError
from gateway.storage.backup.taking import Taken, take
from gateway.storage.journal.options import JournalError
from gateway.storage.state.errors import StateError

SCHEMA = "tidegate.backup/1"
EPILOG = """
The gateway may be running: the file holds one moment of it. It holds readings
and topics, so keep it as you would keep those. Passwords, private keys and
keys of devices are in it only with --with-secrets. Variables and --set are not in it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    parser.add_argument("file", metavar="FILE", type=Path, help="where to; .tar.gz by its form")
    add_source_arguments(parser)
    parser.add_argument(
        "--with-secrets",
        action="store_true",
        help="also passwords and keys, as they are; anyone who has the file has them",
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")
    parser.add_argument("--json", action="store_true", help="answer in JSON, on stdout")


def run(arguments: argparse.Namespace) -> int:
    configuration = usable_configuration(arguments)
    if configuration is None:
        return ExitCode.CONFIGURATION
    settings = configuration.settings
    config = used_path(arguments.config)
    try:
        taken = take(
            arguments.file,
            config,
            settings,
            with_secrets=arguments.with_secrets,
            is_forced=arguments.force,
        )
    except FileExistsError as error:
        return _fail(str(error), ExitCode.CANNOT_CREATE)
    except PermissionError as error:
        what = error.filename or error.args[0]
        message = f"{what}: no permission; run this with sudo, or as the gateway's user"
        return _fail(message, ExitCode.PERMISSION)
    except (BackupError, JournalError, StateError) as error:
        return _fail(str(error), ExitCode.FAILURE)
    except OSError as error:
        where = error.filename or arguments.file
        return _fail(f"{where}: {brief(error)}", ExitCode.CANNOT_CREATE)
    _print_result(arguments.file, taken, is_json=arguments.json)
    return ExitCode.OK


def _print_result(path: Path, taken: Taken, *, is_json: bool) -> None:
    size = path.stat().st_size
    if is_json:
        print_line(
            json.dumps({"schema": SCHEMA, "file": str(path), "bytes": size, **asdict(taken)})
        )
        return
    config = "the configuration" if taken.has_config else "no configuration, as there is no file"
    state = "the state" if taken.has_state else "no state, as there is none yet"
    print_line(f"{path}: {config}, {state}, {taken.segments} segments of the journal; {size} bytes")
    if taken.left_out:
        print_error(f"not in it: {', '.join(taken.left_out)}; --with-secrets adds them")


def _fail(message: str, code: ExitCode) -> int:
    print_error(f"tidegate backup: {message}")
    return code
