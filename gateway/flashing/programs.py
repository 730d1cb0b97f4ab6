"""Runs programs that are not ours, such as esptool: found, started, heard line by line, and ended.

They are found beside this Python first, where installers put them, then on PATH.
"""

from __future__ import annotations

import math
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gateway.flashing.errors import Failure, FlashError
from gateway.host.installation import Installation

ESPTOOL = "esptool"  # GPL, so no extra brings it
NAMES = {ESPTOOL: ("esptool", "esptool.py")}  # the second up to version 4
LAST_LINES = 8
READ_OCTETS = 4096
LINE_LETTERS_MAX = 400


def find_program(name: str) -> str | None:
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    found = (shutil.which(each, path=places) for each in NAMES.get(name, (name,)))
    return next((path for path in found if path is not None), None)


def needed_program(name: str) -> str:
    """Raises FlashError that says how to get it."""
    found = find_program(name)
    if found is None:
        raise not_installed(name)
    return found


def not_installed(name: str) -> FlashError:
    here = Installation.this()
    if name == ESPTOOL:
        how = here.adding_program(ESPTOOL)
    else:
        how = here.adding("flash", "flash", "--help")
    return FlashError(Failure.ABSENT, f"{name} is not installed:  {how}")


class Ended:
    """`lines` are the last ones, to explain a failure."""

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
    silence_s: float = math.inf,
    environment: dict[str, str] | None = None,
) -> Ended:
    """`hear` gets each line, those that end in a carriage return alone as well. It is killed after
    `timeout_s`, and when it has said nothing for `silence_s`: some wait for ever for a board that
    is gone.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", **(environment or {})},
    ) as process:
        try:
            lines = _heard(process, hear, timeout_s, silence_s)
        finally:
            process.kill()  # which does nothing to one that has closed its output, and ended
    return Ended(process.returncode, lines)


def _heard(
    process: subprocess.Popen[bytes],
    hear: Callable[[str], None],
    timeout_s: float,
    silence_s: float,
) -> list[str]:
    assert process.stdout is not None
    output = process.stdout.fileno()
    end = time.monotonic() + timeout_s
    last: list[str] = []
    held = b""
    while True:
        patience_s = min(silence_s, end - time.monotonic())
        if patience_s <= 0 or not select.select([output], [], [], patience_s)[0]:
            return [*last, "it did not go on"]
        octets = os.read(output, READ_OCTETS)
        *lines, held = (held + octets).replace(b"\r", b"\n").split(b"\n")
        for line in lines if octets else [*lines, held]:
            text = line.decode(errors="replace")[:LINE_LETTERS_MAX]
            if text.strip():
                hear(text)
                last = [*last, text][-LAST_LINES:]
        held = held[-LINE_LETTERS_MAX:]
        if not octets:
            process.wait()
            return last
