"""How far it is: a bar on a terminal, which goes away again; a line now and then elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

from tests.cli.tidegate import environment_with

PROGRAM = """
import time
from gateway.cli.flash.reporting import TerminalReport
report = TerminalReport()
report.print_line("begun")
for done in range(1, 5):
    report.at("uploading", done, 4)
    time.sleep(0.4)
report.print_line("done")
"""


def said(*, has_terminal: bool) -> tuple[str, str]:
    near, far = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment_with({}),
        stdout=subprocess.PIPE,
        stderr=far if has_terminal else subprocess.PIPE,
    ) as process:
        os.close(far)
        assert process.stdout is not None
        lines = process.stdout.read().decode()
        progress = b""
        if process.stderr is not None:
            progress = process.stderr.read()
        while has_terminal:
            try:
                progress += os.read(near, 4096)
            except OSError:  # nobody has the other end
                break
    os.close(near)
    return lines, progress.decode()


def test_on_a_terminal_a_bar_grows_and_is_taken_away() -> None:
    lines, progress = said(has_terminal=True)
    assert lines == "begun\ndone\n"
    assert "\r" in progress
    assert "uploading    [############............]  50%" in progress or (
        "uploading    [##################......]  75%" in progress
    )
    assert progress.endswith("\r\x1b[K")


def test_elsewhere_it_is_plain_lines_and_few() -> None:
    lines, progress = said(has_terminal=False)
    assert lines == "begun\ndone\n"
    assert "\x1b" not in progress
    assert "\r" not in progress
    assert len(progress.splitlines()) <= 1
