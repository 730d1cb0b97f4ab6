"""Many boards, one after the other: what is plugged in becomes the next number."""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from gateway.cli.flash import batch
from hil.boards.microbit.board import MicrobitBoard
from tests.cli.tidegate import environment_with, tidegate

PATIENCE_S = 200.0


class Running:
    """`tidegate flash --batch` at a port that comes and goes."""

    def __init__(self, folder: Path, *more: str) -> None:
        self._said = folder / "said"
        command = [sys.executable, "-m", "gateway", "flash", "--batch", "--port", "port"]
        command += ["--name", "shed-{}", "--first", "3", "--sensor", "simulated", "--wait", "0"]
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                [*command, *more],
                env=environment_with({}),
                cwd=folder,
                stdout=said,
                stderr=said,
                # What runs in the background of a shell has it ignored, and so do its children.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """One left behind would talk to whatever gets the name of its terminal next."""
        self.process.kill()
        self.process.wait()

    @property
    def said(self) -> str:
        return self._said.read_text()

    def wait_until(self, is_so: Callable[[str], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so(self.said):
            assert time.monotonic() < deadline, self.said
            time.sleep(0.05)


def test_each_board_that_is_plugged_in_gets_the_next_number(
    microbit: MicrobitBoard, tmp_path: Path
) -> None:
    port = tmp_path / "port"
    with Running(tmp_path) as running:
        running.wait_until(lambda said: "plug in the first board" in said)
        port.symlink_to(microbit.device)
        running.wait_until(lambda said: "plug in the next, which is shed-4" in said)
        port.unlink()
        running.wait_until(lambda said: "port is unplugged" in said)
        port.symlink_to(microbit.device)
        running.wait_until(lambda said: "plug in the next, which is shed-5" in said)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(PATIENCE_S) == 0
        assert re.findall(r'enrolment: {"id": "(.*?)"', running.said) == ["shed-3", "shed-4"], (
            running.said
        )
        assert running.said.rstrip().endswith("2 done, 0 failed")


def test_a_board_that_failed_keeps_its_number_for_the_next(
    microbit: MicrobitBoard, tmp_path: Path
) -> None:
    port = tmp_path / "port"
    port.symlink_to("/dev/null")
    with Running(tmp_path, "--count", "2") as running:
        running.wait_until(lambda said: "unplug it" in said)
        port.unlink()
        running.wait_until(lambda said: "port is unplugged" in said)
        port.symlink_to(microbit.device)
        assert running.process.wait(PATIENCE_S) == 1
        assert "tidegate flash: shed-3: port is no serial port" in running.said
        assert re.findall(r'enrolment: {"id": "(.*?)"', running.said) == ["shed-3"], running.said
        assert running.said.rstrip().endswith("1 done, 1 failed")


def test_a_pico_that_was_a_drive_and_is_a_port_then_is_one_board(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drive, port, other = ("drive", "/media/RPI-RP2"), ("port", "ACM0"), ("port", "ACM1")
    plugged: set[tuple[str, str]] = {drive}
    monkeypatch.setattr(batch, "_there", lambda arguments: plugged)
    monkeypatch.setattr(batch, "PORT_READY_S", 0.0)
    places = batch._places(argparse.Namespace())
    assert next(places) == drive
    plugged = {port}  # it was given MicroPython
    threading.Timer(0.5, lambda: plugged.add(other)).start()
    assert next(places) == other
    assert capsys.readouterr().out == ""


def test_a_name_without_a_place_for_the_number_is_refused(tmp_path: Path) -> None:
    done = tidegate("flash", "--batch", "--name", "shed", folder=tmp_path)
    assert done.returncode == 1
    assert "--batch: --name needs {} for the number: 'shed-{}'" in done.stderr
