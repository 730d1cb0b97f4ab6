"""Runs `tidegate` as a user does: a process of its own, with the interpreter of the tests; or the
same within this process.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.app.service import blocking_check
from gateway.cli import progress

REPOSITORY = Path(__file__).parents[2]
TIMEOUT_S = 200
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
    *arguments: str | Path,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *map(str, arguments)],
        cwd=folder,
        env=environment_with(environment or {}),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def tidegate_here(
    *arguments: str | Path, folder: Path, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """The same in this process, which is ten times as fast: where the process is not the point.

    An exception that would be a traceback is raised. What lasts for the life of a process, such as
    a limit or a changed user, is not for this. However slow the machine is, no progress is shown.
    """
    to_out, to_error = BytesIO(), BytesIO()
    out, error = (TextIOWrapper(to, "utf-8", newline="\n") for to in (to_out, to_error))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(error):
        patch.chdir(folder)
        patch.setattr(progress, "QUIET_S", TIMEOUT_S)
        wanted = environment_with(environment or {})
        for name in os.environ.keys() - wanted.keys():
            patch.delenv(name)
        for name, value in wanted.items():
            patch.setenv(name, value)
        code = main([*map(str, arguments)])
        out.flush()
        error.flush()
    texts = [written.getvalue().decode() for written in (to_out, to_error)]
    return subprocess.CompletedProcess([*map(str, arguments)], code, *texts)
