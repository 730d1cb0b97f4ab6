"""Words that the glossary does without are found wherever prose is, and nowhere else."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.starting import REPOSITORY

SCRIPT = REPOSITORY / ".ci" / "words.py"


def script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("words", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


WORDS = script()


def findings(folder: Path, name: str, text: str) -> list[str]:
    path = folder / name
    path.write_text(text)
    found = WORDS.findings([path], folder)
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.md", "Of one octet.\n", "a.md:1: octet ==> byte"),
        ("a.md", "# Page\n\nAll is\nsettled.\n", "a.md:3: settled ==> acknowledged by the broker"),
        ("a.md", "It is to\nbe had.\n", "a.md:1: to be had ==> available"),
        ("a.md", "| a |\n| --- |\n| anew |\n", "a.md:3: anew ==> again"),
        ("a.md", "It is recieved.\n", "a.md:1: recieved ==> received"),
        ("a.py", '"""What a former\nlife left."""\n', "a.py:1: a former life ==> the previous run"),
        ("a.py", 'def f():\n    """One octet."""\n', "a.py:2: octet ==> byte"),
        ("a.py", "x = 1  # of an octet\n", "a.py:1: octet ==> byte"),
        ("a.py", "x = 1\n# It is to\n# be had.\n", "a.py:2: to be had ==> available"),
    ],
)
def test_a_word_in_prose_is_found(tmp_path: Path, name: str, text: str, found: str) -> None:
    assert findings(tmp_path, name, text) == [found]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "```\nan octet\n```\n"),
        ("a.md", "The key `allow_trailing_octets`, the word `octet`.\n"),
        ("a.md", 'The specification: "An octet\nis sent."\n'),
        ("a.md", "> An octet.\n"),
        ("a.md", "<!-- octet -->\n"),
        ("a.md", "[here](#octet)\n"),
        ("a.py", 'octet = "an octet"  # of `octet`\n'),
    ],
)
def test_code_and_quotations_may_have_it(tmp_path: Path, name: str, text: str) -> None:
    assert findings(tmp_path, name, text) == []


def test_a_word_that_was_put_in_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("Of one octet.\n")
    monkeypatch.setattr(WORDS, "ROOT", tmp_path)
    assert WORDS.main([str(page)]) == 1
    assert capsys.readouterr().out == "page.md:1: octet ==> byte\n"
    page.write_text("Of one byte.\n")
    assert WORDS.main([str(page)]) == 0


@pytest.mark.soak  # `make check` does it too
def test_the_prose_of_this_project_does_without_them() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_without_names_all_prose_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "a.md"
    page.write_text("Of one octet.\n")
    monkeypatch.setattr(WORDS, "ROOT", tmp_path)
    monkeypatch.setattr(WORDS, "sources", lambda: [page])
    assert WORDS.main([]) == 1
    assert "a.md:1: octet ==> byte" in capsys.readouterr().out
    page.write_text("Of one byte.\n")
    assert WORDS.main([]) == 0
