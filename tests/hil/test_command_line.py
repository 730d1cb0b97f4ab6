"""`python -m hil` and `pytest hil`, as they are typed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.boards import require_board

PATIENCE_S = 200.0
REPOSITORY = Path(__file__).resolve().parents[2]
ABSENT = '[[board]]\nid = "esp"\nkind = "esp32"\nport = "/dev/absent"\n'


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=REPOSITORY,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def bench(folder: Path, text: str) -> str:
    path = folder / "bench.toml"
    path.write_text(text)
    return str(path)


def short(folder: Path) -> str:
    """A scenario of two readings."""
    scenarios = folder / "short_scenarios"
    scenarios.mkdir()
    (scenarios / "short.toml").write_text('title = "Short"\nreadings = 2\nafter = 1\n')
    return str(scenarios)


def test_help_names_all_options() -> None:
    told = typed("hil", "--help")
    assert told.returncode == 0
    for option in ("--bench", "--scenario", "--board", "--require", "--seed", "--gateway"):
        assert option in told.stdout


def test_boards_and_scenarios_are_listed(tmp_path: Path) -> None:
    told = typed("hil", "--list", "--bench", bench(tmp_path, ABSENT))
    assert told.returncode == 0
    assert "not there: there is no /dev/absent: is it plugged in?" in told.stdout
    assert "gateway_kill         The gateway is killed" in told.stdout


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--board", "esp"], 2, "no board 'esp'; there are wasi-udp, wasi-serial, microbit-qemu"),
        (["--scenario", "x"], 2, "no scenario 'x'; there are air_down, "),
        (["--require", "x"], 2, "no board 'x'"),
        (["--gateway", "h:1"], 2, "--gateway and --broker go together"),
        (["--gateway", "h"], 2, "expected HOST:PORT, got 'h'"),
        (["--jobs", "0"], 2, "--jobs: expected 1 to 100, got '0'"),
        (["--bench", "absent.toml"], 78, "absent.toml: No such file or directory"),
    ],
)
def test_a_wrong_command_is_told_what_would_be_right(
    words: list[str], code: int, told: str
) -> None:
    ended = typed("hil", *words)
    assert ended.returncode == code
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_board_that_is_not_there_is_no_failure_unless_it_is_required(tmp_path: Path) -> None:
    require_board()
    both = bench(tmp_path, '[[board]]\nid = "sim"\nkind = "wasi"\n' + ABSENT)
    words = ["--bench", both, "--scenarios", short(tmp_path), "--report", str(tmp_path / "report")]
    ended = typed("hil", *words, "--seed", "5")
    assert ended.returncode == 0, ended.stdout
    assert "not run  esp " in ended.stdout
    assert "1 passed, 1 not run" in ended.stdout
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert {run["board"]: run["outcome"] for run in report["runs"]} == {
        "sim": "passed",
        "esp": "not run",
    }
    ended = typed("hil", *words, "--board", "esp", "--require", "esp")
    assert ended.returncode == 1
    assert "required, and not there: there is no /dev/absent" in ended.stdout


def test_nothing_run_is_no_success(tmp_path: Path) -> None:
    words = ["--bench", bench(tmp_path, ABSENT), "--scenario", "calm"]
    assert typed("hil", *words, "--report", str(tmp_path / "report")).returncode == 1


def programs_with(word: str) -> list[str]:
    """Command lines of all that runs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if word in line]


def test_asked_to_end_it_takes_all_that_it_started_with_it(tmp_path: Path) -> None:
    require_board()
    words = ["--board", "wasi-udp", "--scenario", "calm", "--report", str(tmp_path / "report")]
    with subprocess.Popen(
        [sys.executable, "-m", "hil", *words], cwd=REPOSITORY, stdout=subprocess.DEVNULL
    ) as started:
        deadline = time.monotonic() + PATIENCE_S
        while len(programs_with(str(tmp_path))) < 3:  # itself, a broker, a gateway
            assert time.monotonic() < deadline
            time.sleep(0.02)
        started.terminate()
        assert started.wait(PATIENCE_S) == 1
    assert programs_with(str(tmp_path)) == []


def test_pytest_runs_scenarios_and_skips_with_the_reason(tmp_path: Path) -> None:
    require_board()
    both = bench(tmp_path, '[[board]]\nid = "sim"\nkind = "wasi"\n' + ABSENT)
    words = ["-p", "hil.plugin", short(tmp_path), "--bench", both, "-rs", "-p", "no:cacheprovider"]
    ended = typed("pytest", *words, "--hil-report", str(tmp_path / "report"), "--hil-seed", "5")
    assert ended.returncode == 0, ended.stdout
    assert "1 passed, 1 skipped" in ended.stdout
    assert "not run: there is no /dev/absent" in ended.stdout
    assert "hil: seed 5" in ended.stdout
    assert (tmp_path / "report" / "report.html").exists()
    ended = typed("pytest", *words, "--require", "esp")
    assert ended.returncode == 1
    assert "required, and not there" in ended.stdout


def test_pytest_tells_mistakes_in_scenarios_and_benches(tmp_path: Path) -> None:
    folder = tmp_path / "scenarios"
    folder.mkdir()
    (folder / "mine.toml").write_text('title = "x"\nreading = 3\n')
    words = ["-p", "hil.plugin", str(folder), "-p", "no:cacheprovider"]
    ended = typed("pytest", *words)
    assert ended.returncode != 0
    assert "mine.toml:2: reading: unknown here; did you mean readings?" in ended.stdout
    ended = typed("pytest", *words, "--bench", bench(tmp_path, "board = 1\n"))
    assert ended.returncode != 0
    assert "board: expected tables, each as [[board]]" in ended.stderr + ended.stdout
