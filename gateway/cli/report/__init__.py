"""`tidegate report`: one archive to attach to a report, without secrets.

Works whatever is wrong: with a configuration that is no TOML, a gateway that does not run, as any
user. Each part has its own time limit, and says in its file why it is missing.
"""

import argparse
import io
import json
import os
import shlex
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, BinaryIO

from gateway.app.exit_codes import ExitCode
from gateway.cli.live import size
from gateway.cli.output import print_error, print_line
from gateway.cli.sources import add_source_arguments, configuration_of, in_time, used_path
from gateway.cli.tables import terminal_columns
from gateway.config import ConfigError, HostPort, page_address
from gateway.config.settings import THIS_MACHINE_ONLY
from gateway.host.causes import brief
from gateway.host.version import version

if TYPE_CHECKING:
    from gateway.cli.report.parts import Subject

SCHEMA = "tidegate.report/1"
EPILOG = """
In it are versions, the configuration, what tidegate check, doctor, status and
buffer say, metrics, the last lines of the log, and facts about this machine.
Passwords, keys, user names, client ids, URLs' user names and payloads are
taken out; names of sensors, topics, hosts and addresses stay. Look through it
before you hand it over. Run it with sudo to have all of it.
"""
README = """\
A report of `tidegate report`, {time}, Tidegate {version}.

{parts}

Taken out, and shown as (removed): values of the configuration that may be
secrets, what is in its password files, user names in URLs, private keys,
payloads. Names of sensors, topics, hosts and addresses are in it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        type=Path,
        help="where to; without it tidegate-report-DATE-TIME.tar.gz in this folder",
    )
    add_source_arguments(parser)
    parser.add_argument("--json", action="store_true", help="say in JSON what is in it")


def run(arguments: argparse.Namespace) -> int:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path: Path = arguments.file or Path(f"tidegate-report-{stamp}.tar.gz")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _fail(f"{path} is there already", ExitCode.CANNOT_CREATE)
    except PermissionError:
        return _fail(f"no permission to write {path}; name another place", ExitCode.PERMISSION)
    except OSError as error:
        return _fail(f"{path} cannot be written: {brief(error)}", ExitCode.CANNOT_CREATE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            folder = path.name.partition(".")[0] or "tidegate-report"
            sizes = _fill(file, folder, _subject(arguments), is_json=arguments.json)
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        path.unlink(missing_ok=True)
        if not isinstance(error, OSError) or isinstance(error, BrokenPipeError):
            raise
        return _fail(f"{path} cannot be written: {brief(error)}", ExitCode.CANNOT_CREATE)
    _print_result(path.absolute(), sizes, is_json=arguments.json)
    return ExitCode.OK


def _subject(arguments: argparse.Namespace) -> "Subject":
    from gateway.cli.asking import Place, place_of
    from gateway.cli.report.parts import Subject
    from gateway.cli.report.redaction import Redaction

    config = used_path(arguments.config)
    try:
        configuration = configuration_of(arguments, os.environ)
        settings, place = configuration.settings, place_of(configuration)
    except ConfigError:
        settings, place = None, Place(_page_of(config, arguments.overrides))
    return Subject(
        config=config,
        overrides=tuple(arguments.overrides),
        environment=os.environ,
        settings=settings,
        place=place,
        redaction=Redaction(),
    )


def _page_of(config: Path | None, overrides: Sequence[str]) -> HostPort | None:
    """Where a gateway may be running all the same, since before the configuration was wrong."""
    if config is None:
        return THIS_MACHINE_ONLY
    try:
        return in_time(lambda: page_address(config, environment=os.environ, overrides=overrides))
    except (ConfigError, OSError, TypeError, ValueError):
        return THIS_MACHINE_ONLY


def _fill(
    file: BinaryIO, folder: str, subject: "Subject", *, is_json: bool
) -> dict[str, tuple[str, int]]:
    """The parts by name: what each is, and its size."""
    from gateway.cli.report.parts import made, parts_of

    sizes: dict[str, tuple[str, int]] = {}
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for part in parts_of(subject):
            data = made(part, subject.redaction)
            if not is_json:
                _print_part(part.name, len(data), part.what)
            _add(archive, f"{folder}/{part.name}", data)
            sizes[part.name] = (part.what, len(data))
        listed = "\n".join(f"{name:<20}{what}" for name, (what, _) in sizes.items())
        text = README.format(time=time.ctime(), version=version(), parts=listed)
        _add(archive, f"{folder}/README.txt", text.encode())
    return sizes


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
    archive.addfile(entry, io.BytesIO(data))


def _print_part(name: str, count: int, what: str) -> None:
    line = f"{name:<20}{size(count):>10}  {what}"
    width = terminal_columns()
    if width is not None and len(line) > width:
        line = "\n".join(wrap(f"{name}, {size(count)}: {what}", max(20, width - 2)))
    print_line(line)


def _print_result(path: Path, sizes: dict[str, tuple[str, int]], *, is_json: bool) -> None:
    whole = path.stat().st_size
    if is_json:
        parts = [
            {"name": name, "what": what, "bytes": count} for name, (what, count) in sizes.items()
        ]
        document = {"schema": SCHEMA, "file": str(path), "bytes": whole, "parts": parts}
        print_line(json.dumps(document, indent=2))
        return
    print_line(f"\n{path}")
    print_line(f"{size(whole)}, for you alone to read. Before you hand it over, look through it:")
    print_line(f"  tar -xzOf {shlex.quote(str(path))} | less")


def _fail(message: str, code: ExitCode) -> int:
    print_error(f"tidegate report: {message}")
    return code
