"""What the shells offer after TAB, asked of the shells."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.cli.verbs import VERBS
from tests.cli.tidegate import tidegate

NAMES = sorted(verb.name for verb in VERBS)

BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_shtab_tidegate
((${#COMPREPLY[@]})) && printf '%s\\n' "${COMPREPLY[@]}"
true
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("completion")
    found = {}
    for shell in ("bash", "zsh", "fish"):
        found[shell] = folder / shell
        found[shell].write_text(tidegate("completion", shell, folder=folder).stdout)
    return found


def completed(script: Path, folder: Path, *words: str) -> list[str]:
    """`words` as typed, the last one so far as it is there."""
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH, "bash", str(script), "tidegate", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return sorted(done.stdout.split("\n")[:-1])


def test_bash_offers_the_verbs_and_their_options(scripts: dict[str, Path], tmp_path: Path) -> None:
    bash = scripts["bash"]
    assert completed(bash, tmp_path, "") == NAMES
    assert completed(bash, tmp_path, "-") == ["--help", "--version", "-h"]
    assert completed(bash, tmp_path, "rest") == ["restore"]
    assert completed(bash, tmp_path, "re") == ["report", "restore"]
    assert completed(bash, tmp_path, "run", "--log-l") == ["--log-level"]
    assert completed(bash, tmp_path, "run", "--log-level", "") == [
        "debug",
        "error",
        "info",
        "warning",
    ]
    assert completed(bash, tmp_path, "run", "--log-level", "w") == ["warning"]
    assert completed(bash, tmp_path, "completion", "") == ["bash", "fish", "zsh"]


def test_bash_offers_actions_behind_options_with_values(
    scripts: dict[str, Path], tmp_path: Path
) -> None:
    bash = scripts["bash"]
    assert completed(bash, tmp_path, "buffer", "--config", "a.toml", "e") == ["export"]
    assert "--count" in completed(bash, tmp_path, "buffer", "--json", "peek", "--")
    assert completed(bash, tmp_path, "flash", "mon") == ["monitor"]
    assert completed(bash, tmp_path, "simulate", "--sensors", "") == [], "a number is not guessed"


def test_bash_offers_files_where_a_file_is_meant(scripts: dict[str, Path], tmp_path: Path) -> None:
    for name in ("a file", "a.toml"):
        (tmp_path / name).touch()
    bash = scripts["bash"]
    assert completed(bash, tmp_path, "run", "--config", "a") == ["a file", "a.toml"]
    assert completed(bash, tmp_path, "check", "a") == ["a file", "a.toml"]
    assert completed(bash, tmp_path, "status", "a") == []


def test_zsh_takes_its_script_and_offers_the_verbs(
    scripts: dict[str, Path], tmp_path: Path
) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("not run: zsh is missing")
    program = f"""
        compdef() {{ }}
        _describe() {{ print -rl -- "${{(@P)2}}" }}
        eval "$(<{scripts["zsh"]})"
        _shtab_tidegate_commands
        print -rl -- $_shtab_tidegate_run_options
    """
    done = subprocess.run(
        ["zsh", "-f", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    lines = done.stdout.split("\n")
    assert [line.partition(":")[0] for line in lines if line.startswith("restore:")] == ["restore"]
    (levels,) = [line for line in lines if line.startswith("--log-level[")]
    assert levels.endswith(":(debug info warning error)")


def test_fish_takes_its_script_and_offers_what_fits(
    scripts: dict[str, Path], tmp_path: Path
) -> None:
    if shutil.which("fish") is None:
        pytest.skip("not run: fish is missing")

    def offered(line: str) -> list[str]:
        program = f"source {scripts['fish']}; complete -C '{line}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return sorted(found.partition("\t")[0] for found in done.stdout.splitlines())

    assert offered("tidegate ") == NAMES
    assert offered("tidegate run --log-level ") == ["debug", "error", "info", "warning"]
    assert offered("tidegate buffer ") == ["aside", "export", "peek"]
    assert "--count" in offered("tidegate buffer peek --")
    assert "--count" not in offered("tidegate buffer --")


def test_another_shell_is_wrong_usage(tmp_path: Path) -> None:
    done = tidegate("completion", "csh", folder=tmp_path)
    assert done.returncode == 2
    assert "invalid choice: 'csh'" in done.stderr
