"""Runs `tidegate` as a user does: a process of its own, with the interpreter of the tests."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from gateway.app.service import blocking_check

REPOSITORY = Path(__file__).parents[2]
TIMEOUT_S = 60
PROGRAMS = REPOSITORY / "tests" / "support" / "programs"  # sudo, where there is none


def environment_with(more: Mapping[str, str]) -> dict[str, str]:
    """Without variables that would configure the gateway, or the interpreter, by chance.

    Unbuffered output would hide what happens to an answer that waits for the end of the process.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TIDEGATE", "PYTHON"))
    }
    checked = {
        name: value
        for name, value in os.environ.items()
        if name in (blocking_check.VARIABLE, blocking_check.FILE_VARIABLE)
    }
    found = inherited | checked | {"PYTHONPATH": str(REPOSITORY), **more}
    return found | {"PATH": f"{found.get('PATH', os.defpath)}:{PROGRAMS}"}


def tidegate(
    *arguments: str | Path, folder: Path, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *map(str, arguments)],
        cwd=folder,
        env=environment_with(environment or {}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done
