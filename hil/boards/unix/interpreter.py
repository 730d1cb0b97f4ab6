"""The program `micropython`: found beside this Python, where .ci/setup-micropython.sh puts one, or
on PATH, where Debian's package does.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hil.boards import programs
from hil.boards.errors import BoardError

NAME = "micropython"
MODULES = Path(__file__).with_name("modules")
TIMEOUT_S = 200.0
# What a board takes of it, and variants such as `minimal` lack.
_NEEDED = "import ffi, termios, vfs, asyncio, deflate; vfs.VfsLfs2; print('whole')"


@cache
def why_not() -> str | None:
    """Why there can be no such board on this machine; None when there can."""
    absent = programs.missing(NAME)
    if absent is not None:
        return absent
    try:
        output = programs.run(NAME, ["-c", _NEEDED], TIMEOUT_S)
    except BoardError as error:
        return f"{programs.find(NAME)} is not the standard variant of MicroPython: {error}"
    return None if output.strip() == "whole" else f"{programs.find(NAME)} said {output.strip()!r}"


def path() -> str:
    """Raises BoardError."""
    found = programs.find(NAME)
    if found is None:
        raise BoardError(programs.missing(NAME) or "")
    return found


def run(*arguments: str) -> str:
    """What a program printed that was run to its end. Raises BoardError."""
    return programs.run(NAME, arguments, TIMEOUT_S)
