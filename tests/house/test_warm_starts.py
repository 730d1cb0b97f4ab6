"""Processes that a template forks are as those that begin with exec (tests/support/warm)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from tests.cli.tidegate import environment_with
from tests.support.warm.starts import Starts, WarmPopen, starts

NOWHERE = "mqtt://127.0.0.1:1"
COMMANDS = {
    "an answer": ["--version"],
    "help": ["check", "--help"],
    "a mistake in what is typed": ["nonsense"],
    "a file from the folder, and the environment": ["check", "c.toml", "--show"],
    "a wrong file": ["check", "wrong.toml"],
    "no gateway": ["status", "--set", "admin.listen=127.0.0.1:1"],
    "standard input": ["check", "/dev/stdin"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c.toml").write_text(f'[upstream]\nurl = "{NOWHERE}"\n')
    (tmp_path / "wrong.toml").write_text("[upstream\n")
    return tmp_path


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether each process since was forked by a template."""
    asked: list[bool] = []
    served = Starts.is_served

    def noted(self: Starts, *given: object) -> bool:
        asked.append(served(self, *given))  # type: ignore[arg-type]
        return asked[-1]

    monkeypatch.setattr(Starts, "is_served", noted)
    monkeypatch.setattr(subprocess, "Popen", WarmPopen)
    yield asked
    starts.is_cold = False


def outcome(arguments: list[str], folder: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *arguments],
        cwd=folder,
        env=environment_with({"TIDEGATE_GATEWAY__NAME": "by-environment"}),
        input="no configuration\n",
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_what_it_says_and_its_exit_code(
    arguments: list[str], folder: Path, warm: list[bool]
) -> None:
    by_template = outcome(arguments, folder)
    starts.is_cold = True
    assert by_template == outcome(arguments, folder)
    assert warm == [True, False]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_it_is_a_child_that_signals_end(
    number: signal.Signals, tmp_path: Path, warm: list[bool]
) -> None:
    with GatewayProcess(tmp_path, NOWHERE) as gateway:
        assert gateway.port
        status = Path(f"/proc/{gateway.pid}/stat").read_text().rpartition(")")[2].split()
        assert (int(status[1]), os.getsid(gateway.pid)) == (os.getpid(), gateway.pid)
        os.kill(gateway.pid, number)
        expected = -signal.SIGKILL if number is signal.SIGKILL else 0
        assert gateway.wait_for_exit() == expected
    assert warm == [True]


def test_it_has_no_other_files_than_one_that_begins_with_exec(
    tmp_path: Path, warm: list[bool]
) -> None:
    found = []
    for is_cold in (False, True):
        starts.is_cold = is_cold
        folder = tmp_path / str(is_cold)
        folder.mkdir()
        with GatewayProcess(folder, NOWHERE) as gateway:
            gateway.wait_for_log("unreachable")
            links = [str(each.readlink()) for each in Path(f"/proc/{gateway.pid}/fd").iterdir()]
            found.append(
                sorted(re.sub(r"\d+|True|False|/[^/]*\.segment", "", each) for each in links)
            )
    assert found[0] == found[1]
    assert warm == [True, False]


def test_a_module_that_no_template_serves_begins_with_exec(
    tmp_path: Path, warm: list[bool]
) -> None:
    subprocess.run([sys.executable, "-c", "pass"], check=True, cwd=tmp_path)
    assert warm == [False]
