"""What contributors meet first: hooks, forms, and what continuous integration runs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.schemas import schema_fault
from tests.support.starting import REPOSITORY

FORMS = sorted((REPOSITORY / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def loaded(path: Path) -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")  # not on 32-bit ARM
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize(
    ("message", "is_taken"),
    [
        ("core: what it does\n\nWhy it does.\n", True),
        ("core: what it does\n# a comment\n\nWhy it does.\n", True),
        ("Merge branch 'x'\n", True),
        ("what it does\n\nWhy it does.\n", False),
        ("core: what it does\n", False),
        (f"core: {'x' * 55}\n\nWhy it does.\n", False),
        ("", False),
    ],
)
def test_a_commit_says_what_and_why(message: str, is_taken: bool, tmp_path: Path) -> None:
    (tmp_path / "m").write_text(message)
    done = subprocess.run(
        [REPOSITORY / ".ci/commit-subject.sh", tmp_path / "m"], capture_output=True, check=False
    )
    assert (done.returncode == 0, done.stderr == b"") == (is_taken, is_taken)


def test_hooks_are_programs_that_setup_brings() -> None:
    (repository,) = loaded(REPOSITORY / ".pre-commit-config.yaml")["repos"]
    for hook in repository["hooks"]:
        program = REPOSITORY / hook["entry"].split()[0]
        assert program.is_file(), program


def test_a_forge_runs_what_any_machine_runs() -> None:
    workflow = REPOSITORY / ".github/workflows/ci.yml"
    assert "- run: DOCS=yes .ci/run\n" in workflow.read_text(encoding="utf-8")
    fault = schema_fault("github-workflows", workflow)
    assert fault is None, fault


@pytest.mark.parametrize("form", [each for each in FORMS if each.name != "config.yml"], ids=str)
def test_a_form_asks_for_something_that_is_needed(form: Path) -> None:
    body = loaded(form)["body"]
    assert isinstance(body, list)
    required = [each for each in body if each.get("validations", {}).get("required")]
    assert required
    assert len({each["id"] for each in body}) == len(body)
