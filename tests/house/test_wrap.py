"""Documents are wrapped at 100 columns, and show the same as before."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.starting import REPOSITORY

SCRIPT = REPOSITORY / ".ci" / "wrap.py"
LONG = " ".join(["word"] * 30)  # 149 columns


def script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("wrap", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


WRAP = script()


def wrapped(text: str) -> str:
    result = WRAP.wrapped(text)
    assert isinstance(result, str)
    assert WRAP.wrapped(result) == result, "twice is once"
    return result


def test_a_paragraph_is_filled_up_to_100_columns() -> None:
    assert [len(line) for line in wrapped(f"{LONG}\n").splitlines()] == [99, 49]
    assert wrapped("short\nlines\n\nand another\n") == "short lines\n\nand another\n"


@pytest.mark.parametrize(
    ("bullet", "indent"),
    [("- ", "  "), ("1. ", "   "), ("> ", "> "), ("- [x] ", "  "), ("  - ", "    ")],
)
def test_what_follows_a_bullet_is_indented(bullet: str, indent: str) -> None:
    text = f"- a\n{bullet}{LONG}\n" if bullet.startswith("  ") else f"{bullet}{LONG}\n"
    *_, first, second = wrapped(text).splitlines()
    assert first.startswith(f"{bullet}word")
    assert second.startswith(f"{indent}word")


@pytest.mark.parametrize(
    "text",
    [
        f"```sh\n{LONG}\n```\n",
        f"- item\n\n  ```sh\n  {LONG}\n  ```\n",
        f"| a | b |\n| --- | --: |\n| {LONG} | x |\n",
        f"<!-- before: {LONG} -->\n",
        f"# {LONG}\n",
        f"<!-- part:begin -->\n{LONG}\n<!-- part:end -->\n",
        f"# Page\n\n<!-- Made by `program`. -->\n\n{LONG}\n",
        "two spaces end  \na line\n",
    ],
    ids=["code", "code in a list", "table", "comment", "heading", "markers", "made", "hard break"],
)
def test_all_else_stays(text: str) -> None:
    assert wrapped(text) == text


def test_a_code_span_is_not_broken() -> None:
    span = f"`{' '.join(['code'] * 12)}`"
    assert f"{span} word" in wrapped(f"{LONG[:79]} {span} word\n").splitlines()


@pytest.mark.parametrize("mark", ["-", "+", "#", "1.", ">", "=", "|"])
def test_no_line_begins_with_what_would_be_another_block(mark: str) -> None:
    text = wrapped(f"{LONG[:99]} {mark} {LONG}\n")
    assert not any(line.startswith(f"{mark} ") for line in text.splitlines())


def test_check_names_what_is_not_wrapped_and_changes_nothing(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{LONG}\n")
    command = [sys.executable, str(SCRIPT), "--check", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, page.read_text()) == (1, f"{LONG}\n")
    assert "page.md: not wrapped" in done.stderr
    subprocess.run([sys.executable, str(SCRIPT), str(page)], check=True)
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path / "none.md")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "none.md" in done.stderr
