"""Programs that are not ours: heard as they speak, and ended when they do not."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from gateway.flashing.programs import find_program, run

LONG_S = 60.0


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_each_line_is_heard_and_what_only_moves_the_bar_too() -> None:
    heard: list[str] = []
    code = r"print('one'); print('10%\r20%\r', end=''); print(); print('last', end='')"
    ended = run(python(code), heard.append, timeout_s=LONG_S)
    assert heard == ["one", "10%", "20%", "last"]
    assert (ended.code, ended.lines) == (0, ("one", "10%", "20%", "last"))


def test_how_it_ended_and_its_last_words_are_told() -> None:
    code = "import sys; [print(n) for n in range(50)]; print('why', file=sys.stderr); sys.exit(3)"
    ended = run(python(code), timeout_s=LONG_S)
    assert ended.code == 3
    assert len(ended.lines) == 8
    assert ended.last_words == "48; 49; why"


def test_one_that_says_nothing_more_is_ended() -> None:
    code = "import time; print('begun', flush=True); time.sleep(60)"
    began = time.monotonic()
    ended = run(python(code), timeout_s=LONG_S, silence_s=1.0)
    assert time.monotonic() - began < 10
    assert ended.code != 0
    assert ended.lines == ("begun", "it did not go on")


def test_one_that_never_stops_talking_is_ended() -> None:
    code = "import time\nwhile True: print('and', flush=True); time.sleep(0.1)"
    ended = run(python(code), timeout_s=1.0, silence_s=LONG_S)
    assert ended.code != 0
    assert ended.lines[-1] == "it did not go on"


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    ended = run(python("print('x' * 5_000_000)"), timeout_s=LONG_S)
    assert ended.code == 0
    assert max(map(len, ended.lines)) <= 400


def test_programs_are_found_beside_this_python_before_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("beside", "path"):
        (tmp_path / folder).mkdir()
        for name in ("esptool.py", "mpremote"):
            program = tmp_path / folder / name
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "beside" / "python"))
    assert find_program("mpremote") == str(tmp_path / "beside" / "mpremote")
    assert find_program("esptool") == str(tmp_path / "beside" / "esptool.py")  # as up to version 4
    assert find_program("absent") is None
