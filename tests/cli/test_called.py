"""What is printed as something to type can be typed as it stands, however the command is called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli import called as called_module
from gateway.cli.called import runnable
from tests.cli.tidegate import PROGRAMS, environment_with

COMMAND = f"""#!{sys.executable}
import sys
from gateway.__main__ import main
sys.exit(main())
"""


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """As an installation makes it, in a folder where no shell looks for commands."""
    path = tmp_path / "venv" / "bin" / "tidegate"
    path.parent.mkdir(parents=True)
    path.write_text(COMMAND)
    path.chmod(0o755)
    return path


def called(command: str, *arguments: str, folder: Path, path: str = "") -> tuple[str, str]:
    environment = environment_with({"PATH": f"{path}{os.environ['PATH']}"})
    done = subprocess.run(
        [command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout, done.stderr


def test_from_a_clone_it_is_said_with_its_path(command: Path, tmp_path: Path) -> None:
    out, _ = called("venv/bin/tidegate", "doctor", "--config", "no.toml", folder=tmp_path)
    assert "\n  $ sudo venv/bin/tidegate init no.toml\n" in out
    _, err = called("venv/bin/tidegate", "clients", "--set=admin.listen=", folder=tmp_path)
    assert err.startswith("tidegate clients: ")
    assert "start one with `venv/bin/tidegate run`" in err


def test_what_a_shell_finds_by_its_name_is_said_by_its_name(command: Path, tmp_path: Path) -> None:
    path = f"{command.parent}:"
    _, err = called("tidegate", "clients", "--set=admin.listen=", folder=tmp_path, path=path)
    assert "start one with `tidegate run`" in err
    other = f"{tmp_path / 'venv' / '..' / 'venv'}/bin/tidegate"
    _, err = called(other, "clients", "--set=admin.listen=", folder=tmp_path, path=path)
    assert "start one with `tidegate run`" in err, "it is the same program"


def test_what_another_program_of_that_name_would_do_is_not_suggested(
    command: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "tidegate"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    path = f"{other.parent}:"
    arguments = ("clients", "--set=admin.listen=")
    _, err = called("venv/bin/tidegate", *arguments, folder=tmp_path, path=path)
    assert "start one with `venv/bin/tidegate run`" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("see `tidegate buffer`", "see `a/tidegate buffer`"),
        ("sudo tidegate init x", "sudo a/tidegate init x"),
        ("tidegate flash: no board", "tidegate flash: no board"),
        ("tidegate/gh/state, /etc/tidegate run", "tidegate/gh/state, /etc/tidegate run"),
        ("the tidegate runs", "the tidegate runs"),
        ("sudo systemctl restart tidegate", "sudo systemctl restart tidegate"),
    ],
)
def test_only_commands_are_changed(monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    monkeypatch.setattr(sys, "argv", ["a/tidegate"])
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{PROGRAMS}")
    assert runnable(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sudo systemctl restart tidegate", "systemctl restart tidegate"),
        ("tidegate unit | sudo tee /etc/x", "a/tidegate unit | tee /etc/x"),
        ("sudo -u tidegate tidegate doctor", "runuser -u tidegate -- a/tidegate doctor"),
        ("run this with sudo", "run this with sudo"),
    ],
)
def test_root_where_no_sudo_is_needs_none(
    monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    """As in a container, and on a Debian that is nothing but installed."""
    monkeypatch.setattr(sys, "argv", ["a/tidegate"])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nowhere")
    assert runnable(text) == said
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert runnable(text) == text.replace("tidegate unit", "a/tidegate unit").replace(
        "tidegate doctor", "a/tidegate doctor"
    )


def test_sudo_is_given_the_path_where_it_would_not_look(
    command: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command of pipx is in the home of the user who installed it."""
    monkeypatch.setattr(sys, "argv", [str(command)])
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}:{PROGRAMS}")
    assert runnable("sudo tidegate init x; tidegate status") == (
        f"sudo {command} init x; tidegate status"
    )
    monkeypatch.setattr(called_module, "SUDO_LOOKS_IN", {command.parent})
    assert runnable("sudo tidegate init x") == "sudo tidegate init x"
