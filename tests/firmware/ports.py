"""Programs of boards, run on each port of MicroPython that is here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hil.boards.unix import interpreter
from tests.firmware.session_bench import run
from tests.support.boards import built

SOURCES = Path(__file__).resolve().parents[2] / "firmware"
PORTS = ["unix", "unix-sources", "wasi"]

Runner = Callable[[str], list[str]]


def runner(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    *,
    heap: str,
    limit_s: float,
    memory: tuple[str, ...] = (),
) -> Runner:
    """Of a fixture with PORTS as its parameters: a function that runs a program of a board and
    returns the lines that it printed. `heap`: of the Unix port; `memory`: what `new_board` takes.
    """
    if request.param == "wasi":
        board = request.getfixturevalue("new_board")(*memory)
        return lambda text: run(board, text, limit_s)
    reason = interpreter.why_not()
    if reason is not None:
        pytest.skip(f"not run, no MicroPython of the Unix port: {reason}")
    folder = SOURCES if request.param == "unix-sources" else built(tmp_path / "library")

    def on_unix(text: str) -> list[str]:
        ended = subprocess.run(
            [interpreter.path(), "-X", f"heapsize={heap}", "-c", text],
            env={**os.environ, "MICROPYPATH": str(folder)},
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout.splitlines()

    return on_unix
