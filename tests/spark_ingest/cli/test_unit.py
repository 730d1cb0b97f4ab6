"""The unit that is printed starts this Python, and systemd takes it as it is."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_ingest.__main__ import main
from spark_ingest.cli.unit import unit

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("what", ["collect", "run"])
def test_it_starts_the_verb_by_this_python_from_where_the_package_is(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["unit", what, "--user", "ingest"]) == 0
    printed = capsys.readouterr().out
    assert f"\nUser=ingest\nWorkingDirectory={REPOSITORY}\n" in printed
    command = re.search("^ExecStart=(.*)$", printed, re.MULTILINE)
    assert command is not None
    config = str(tmp_path / "ingest.toml")
    assert shlex.split(command[1]) == [
        sys.executable, "-m", "spark_ingest", what, "--config", config,
    ]  # fmt: skip
    answer = subprocess.run(
        [*shlex.split(command[1])[:-2], "--help"], cwd=REPOSITORY, timeout=200, check=False,
        capture_output=True,
    )  # fmt: skip
    assert answer.returncode == 0


def test_a_path_with_signs_of_systemd_means_itself() -> None:
    assert '--config "/a b/100%%/$$x.toml"\n' in unit("run", Path("/a b/100%/$x.toml"), "me")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@pytest.mark.parametrize("what", ["collect", "run"])
def test_systemd_has_nothing_to_say_about_it(what: str, tmp_path: Path) -> None:
    file = tmp_path / f"tidegate-{what}.service"
    file.write_text(unit(what, tmp_path / "a b.toml", "root"))
    answer = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", file], capture_output=True, text=True,
        timeout=200, check=False,
    )  # fmt: skip
    about_it = [line for line in answer.stderr.splitlines() if file.name in line]
    assert (answer.returncode, about_it) == (0, []), answer.stderr
