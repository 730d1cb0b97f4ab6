"""`tidegate import`: a configuration made from that of another MQTT-SN gateway.

Nothing is replaced. A password goes into a file of its own, for its owner alone to read, and never
to the terminal.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.app.exit_codes import ExitCode
from gateway.cli.output import print_error, put
from gateway.host.causes import brief

if TYPE_CHECKING:
    from gateway.cli.importing.files import Imported

NETWORKS = ("udp", "udp6")
EPILOG = """
Each setting that is taken over has its name and line behind it, and what is
not taken over is listed with the reason, on stderr and at the end of the file.
Exit code 1: something in the files is wrong or missing, such as a bad line,
which is named; all else was taken over. What has no equivalent is no fault.

A password is written into a file of its own beside FILE, for its owner alone
to read; without --output it is not written, and never shown.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="program", metavar="PROGRAM", title="programs", required=True
    )
    paho = _add_program(
        actions,
        "paho",
        "gateway.conf",
        "Eclipse Paho's MQTT-SN gateway: its gateway.conf, and the lists that it names",
    )
    _add_program(
        actions,
        "rsmb",
        "broker.cfg",
        "the Really Small Message Broker: its broker.cfg, and its predefined topics",
    )
    paho.add_argument(
        "--network",
        choices=NETWORKS,
        default=NETWORKS[0],
        help="for which network that gateway was built, as its file has settings of all "
        f"(default: {NETWORKS[0]})",
    )


def _add_program(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, file: str, what: str
) -> argparse.ArgumentParser:
    program = actions.add_parser(
        name,
        help=what,
        description=f"Make a configuration of {what}.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    program.add_argument("file", metavar="FILE", type=Path, help=f"its {file}")
    program.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="where to; stdout without it"
    )
    return program


def run(arguments: argparse.Namespace) -> int:
    from gateway.cli.importing.files import NotReadError

    try:
        imported = _imported(arguments)
        _settle(imported, arguments.output or Path.cwd() / "stdout")
    except NotReadError as error:
        return _fail(str(error), ExitCode.FAILURE)
    if arguments.output is None:
        if imported.password is not None:
            hint = "the password is not shown; --output writes it into a file of its own"
            print_error(f"{arguments.file.name}: Password: {hint}")
        put(imported.draft.toml())
    elif (failure := _write(imported, arguments.output)) is not None:
        return failure
    is_shown = arguments.output is None and sys.stdout.isatty()  # at the end of the file
    for note in () if is_shown else imported.draft.notes_in_order:
        print_error(f"not taken over: {note}")
    if arguments.output is not None:
        print_error(f"{arguments.output} is written; next: tidegate check {arguments.output}")
    return ExitCode.OK if imported.draft.is_whole else ExitCode.FAILURE


def _imported(arguments: argparse.Namespace) -> "Imported":
    if arguments.program == "rsmb":
        from gateway.cli.importing.rsmb import import_rsmb

        return import_rsmb(arguments.file)
    from gateway.cli.importing.paho import import_paho

    return import_paho(arguments.file, is_udp6=arguments.network == "udp6")


def _settle(imported: "Imported", path: Path) -> None:
    """Without what `tidegate check` would refuse, the files of certificates and keys too."""
    from gateway.app.credentials import refuse_unusable
    from gateway.transports.errors import LinkError

    settings = imported.draft.settle(path)
    try:
        refuse_unusable(settings)
    except LinkError as error:
        for key in ("key_file", "cert_file", "ca_file"):
            imported.draft.drop(("upstream", key), str(error))
        imported.draft.settle(path)


def _write(imported: "Imported", path: Path) -> int | None:
    """Both files, or none."""
    from gateway.cli.importing.draft import Source

    password_path = path.with_name(f"{path.stem}.upstream.password")
    files = [(path, "")]
    if imported.password is not None:
        key = ("upstream", "password_file")
        imported.draft.put(key, password_path.name, Source(imported.draft.made_from), "Password")
        files.insert(0, (password_path, f"{imported.password}\n"))
    files[-1] = (path, imported.draft.toml())
    written: list[Path] = []
    for each, text in files:
        try:
            with open(each, "x", encoding="utf-8", opener=_private) as file:
                written.append(each)
                file.write(text)
        except OSError as error:
            for one in written:
                one.unlink(missing_ok=True)
            return _refused(each, error)
    if imported.password is not None:
        print_error(f"{password_path} has the password, for its owner alone to read")
    return None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _refused(path: Path, error: OSError) -> int:
    if isinstance(error, FileExistsError):
        return _fail(f"{path} is there already", ExitCode.CANNOT_CREATE)
    if isinstance(error, PermissionError):
        return _fail(f"no permission to write {path}", ExitCode.PERMISSION)
    return _fail(f"{path} cannot be written: {brief(error)}", ExitCode.CANNOT_CREATE)


def _fail(message: str, code: ExitCode) -> int:
    print_error(f"tidegate import: {message}")
    return code
