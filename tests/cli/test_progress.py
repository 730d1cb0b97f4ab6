"""How far a long job is: nothing of a short one, a line that changes on a terminal."""

import os
import sys

import pytest

from gateway.cli.progress import Progress


def said(done: int) -> str:
    return f"{done} done"


def test_a_short_job_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(said)
    for done in range(1000):
        progress.at(done)
    progress.end()
    assert capsys.readouterr() == ("", "")


def test_a_long_job_writes_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(said, quiet_s=0.0)
    for done in range(1000):
        progress.at(done)
    progress.end()
    assert capsys.readouterr() == ("", "0 done\n")


def test_on_a_terminal_it_is_one_line_that_goes_away_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine, theirs = os.openpty()
    with os.fdopen(mine, "rb", buffering=0) as shown, os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        progress = Progress(said, quiet_s=0.0)
        progress.at(7)
        assert shown.read(100) == b"\r7 done\x1b[K"
        progress.at(8)  # too soon after it
        progress.end()
        assert shown.read(100) == b"\r\x1b[K"


def test_without_stderr_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    progress = Progress(said, quiet_s=0.0)
    progress.at(1)
    progress.end()
