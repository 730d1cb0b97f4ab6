"""`tidegate unit`: what systemd needs to run this very installation as a service."""

import argparse
import grp
import shutil
import sys
from pathlib import Path

from gateway.app.exit_codes import ExitCode
from gateway.app.service.unit import serial_groups, sysusers, unit
from gateway.cli.output import print_error, put
from gateway.host.installation import BIN_FOR_ALL, Installation, is_in_a_home

UNIT_PLACE = Path("/etc/systemd/system/tidegate.service")
DEBIAN_COMMAND = Path("/usr/bin/tidegate")
DEBIAN_GROUPS = ("dialout", "plugdev")  # of base-passwd, so on every Debian

EPILOG = """\
  tidegate unit --sysusers | sudo tee /etc/sysusers.d/tidegate.conf
  sudo systemd-sysusers
  sudo systemctl daemon-reload && sudo systemctl enable --now tidegate

The Debian package brings both files. docs/service.md says what each line is for.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    parser.add_argument(
        "--sysusers",
        action="store_true",
        help="instead of the unit, the user that it runs as, for systemd-sysusers",
    )
    parser.add_argument(
        "--command",
        metavar="FILE",
        type=Path,
        help="the command that starts it; without it the one that runs now",
    )
    parser.add_argument(
        "--debian",
        action="store_true",
        help="as in Debian's package: /usr/bin/tidegate, and Debian's groups of serial ports",
    )


def run(arguments: argparse.Namespace) -> int:
    groups = list(DEBIAN_GROUPS) if arguments.debian else serial_groups(_is_group)
    if arguments.sysusers:
        put(sysusers(groups))
        return ExitCode.OK
    command = DEBIAN_COMMAND if arguments.debian else arguments.command or own_command()
    if command is None:
        print_error("tidegate unit: this is no installed command: name one with --command")
        return ExitCode.FAILURE
    here = Installation.this()
    if is_in_a_home(command) or (arguments.command is None and here.is_in_a_home):
        print_error(
            f"warning: {command} is in a home, where the service may not look, so it would fail "
            "with 203/EXEC; install for the whole machine, and write the unit by that command:\n"
            f"  {here.for_all_users()}\n"
            f"  {BIN_FOR_ALL / 'tidegate'} unit | sudo tee {UNIT_PLACE}"
        )
    put(unit(command.absolute(), groups))
    return ExitCode.OK


def own_command() -> Path | None:
    """As it was called, not what a link leads to: an upgrade may lead it elsewhere."""
    found = shutil.which(sys.argv[0]) if Path(sys.argv[0]).name == "tidegate" else None
    return None if found is None else Path(found).absolute()


def _is_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True
