"""`unit`: what systemd needs to keep `collect` or `run` going, by this very Python."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from pathlib import Path

from spark_ingest.cli.arguments import path
from spark_ingest.cli.exit_codes import ExitCode
from spark_ingest.cli.sources import USUAL_FILE

HELP = "print a systemd unit for `collect` or `run`"
EXAMPLE = (
    "python -m spark_ingest unit collect | sudo tee /etc/systemd/system/tidegate-collect.service"
)
_WHAT = {"collect": "readings to the lake", "run": "the lake to tables"}
# The last segment is written; the batch that is under way ends.
_STOP_S = {"collect": 30, "run": 120}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=tuple(_WHAT), help="which verb it runs")
    parser.add_argument(
        "--config", type=path, default=USUAL_FILE, metavar="FILE",
        help=f"the configuration, default {USUAL_FILE} here",
    )  # fmt: skip
    parser.add_argument(
        "--user", default=os.environ.get("SUDO_USER") or getpass.getuser(), metavar="NAME",
        help="who it runs as, default %(default)s: lake and password file must be theirs",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    print(unit(arguments.what, arguments.config.absolute(), arguments.user), end="")
    return ExitCode.OK


def unit(what: str, config: Path, user: str) -> str:
    command = [sys.executable, "-m", "spark_ingest", what, "--config", str(config)]
    home = Path(__file__).resolve().parents[2]
    # Installed, the package is found from anywhere; of a clone it is where it is.
    is_installed = home.name in ("site-packages", "dist-packages")
    folder = "" if is_installed else f"WorkingDirectory={_escaped(str(home))}\n"
    return f"""[Unit]
Description=Tidegate: {_WHAT[what]}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
User={user}
{folder}ExecStart={" ".join(map(_quoted, command))}
Environment=PYTHONUNBUFFERED=1
Restart=on-failure
RestartSec=5
# The configuration, or the command line, is wrong: to start again changes nothing.
RestartPreventExitStatus={ExitCode.USAGE} {ExitCode.CONFIGURATION}
# The process is told to stop, and ends its Java itself.
KillMode=mixed
TimeoutStopSec={_STOP_S[what]}
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=full

[Install]
WantedBy=multi-user.target
"""


def _quoted(word: str) -> str:
    escaped = _escaped(word).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"' if any(letter in escaped for letter in " '\"\\;") else escaped


def _escaped(word: str) -> str:
    return word.replace("%", "%%")
