"""What docs/design.md and docs/decisions name is there: files, modules, classes, functions, tests
and keys of the configuration; and a decision says all that it should.

In the other documents the links are held, by test_documents.py: they are for operators.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from gateway.config.keys import ROOT
from gateway.config.schema import Repeated, Table
from tests.house import house_rules

REPOSITORY = Path(__file__).resolve().parents[2]
DECISIONS = REPOSITORY / "docs" / "decisions"
DOCUMENTS = [
    REPOSITORY / "CONTRIBUTING.md",
    REPOSITORY / "SECURITY.md",
    REPOSITORY / "docs" / "design.md",
    *sorted(DECISIONS.glob("*.md")),
]
CODE = ("gateway", "firmware", "hil", "spark_ingest", "tests")

_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")
_TEST = re.compile(r"([\w./]+\.py)::(\w+)")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*/|(?:[\w.-]+/)*[\w-]+\.(?:py|md|sh|c|js|css|svg|sql|toml)")
_MODULE = re.compile(r"(?:python -m )?((?:gateway|tests|hil|firmware|spark_ingest)(?:\.\w+)+)")
_CLASS = re.compile(r"((?:[A-Z][a-z0-9]+)+)(?:\.\w+)?(?:\(.*\))?")
_CALL = re.compile(r"(?:\w+\.)?([a-z_]\w*)\((?!\d\))[\w, .]*\)")  # and no page of a manual
_KEY = re.compile(r"([a-z_]+)\.([a-z][a-z0-9_]+)(?: = .*)?")
# In a drawing: words that are written as classes are, and are none.
_NO_CLASSES = {"SQLite"}


def files() -> set[str]:
    return {str(path.relative_to(REPOSITORY)) for path in house_rules.tracked(REPOSITORY)}


@cache
def known_paths() -> frozenset[str]:
    """Files, and folders with a slash at the end; each from the root and from any folder above."""
    found = set()
    for name in files():
        parts = name.split("/")
        for start in range(len(parts)):
            found.add("/".join(parts[start:]))
            found |= {"/".join(parts[start:end]) + "/" for end in range(start + 1, len(parts))}
    return frozenset(found)


@cache
def known_names() -> tuple[frozenset[str], frozenset[str]]:
    """The classes, with other names of types such as `Frame = A | B`, and the functions."""
    classes, functions = set(dir(builtins)), set()
    for path in (path for tree in CODE for path in (REPOSITORY / tree).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                classes.add(node.name)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.add(node.name)
            elif isinstance(node, ast.Assign):
                classes |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return frozenset(classes), frozenset(functions)


@cache
def known_keys() -> dict[str, frozenset[str]]:
    """Those of each table of the configuration."""
    return {
        part.name: frozenset(
            key.name for key in (part.entry if isinstance(part, Repeated) else part).keys
        )
        for part in ROOT.parts
        if isinstance(part, Table | Repeated)
    }


def fault_of(span: str) -> str | None:
    """What is wrong with what stands between two backticks."""
    classes, functions = known_names()
    if test := _TEST.fullmatch(span):
        path = REPOSITORY / test[1]
        has_it = path.is_file() and f"def {test[2]}(" in path.read_text()
        return None if has_it else "there is no such test"
    if span in known_paths():
        return None
    if _PATH.fullmatch(span):
        return "there is no such file or folder"
    key = _KEY.fullmatch(span)
    if key and key[2] in known_keys().get(key[1], ()):  # gateway.name looks like a module
        return None
    if module := _MODULE.fullmatch(span):
        path = REPOSITORY / module[1].replace(".", "/")
        is_there = path.with_suffix(".py").is_file() or path.is_dir()
        return None if is_there else "there is no such module"
    if found := _CLASS.fullmatch(span):
        return None if found[1] in classes else "there is no such class"
    if called := _CALL.fullmatch(span):
        return None if called[1] in functions else "there is no such function"
    return "there is no such key" if key and key[1] in known_keys() else None


def faults(text: str) -> Iterator[str]:
    for span in _SPAN.findall(_FENCED.sub("", text)):
        if fault := fault_of(" ".join(span.split())):
            yield f"`{span}`: {fault}"
    classes, functions = known_names()
    for drawing in (each for each in _FENCED.findall(text) if each.startswith("```\n")):
        for word in re.findall(r"(?<![\w/])(?:[A-Z][a-z]+)+\b", drawing):
            if word not in classes | _NO_CLASSES:
                yield f"{word}, in a drawing: there is no such class"
        for called in re.findall(r"\b[a-z]+\.([a-z_]+)\b(?!/)", drawing):
            if called not in functions | {"py"}:
                yield f"{called}, in a drawing: there is no such function"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_what_a_document_names_is_there(path: Path) -> None:
    assert list(faults(path.read_text())) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("`gateway/core/engine.py`, `engine.py`, `core/session/`, `Makefile`", None),
        ("`gateway/core/motor.py`", "file"),
        ("in `motor.py`", "file"),
        ("`gateway/core/motor/`", "file"),
        ("`python -m gateway.core.session.states_drawing`, `gateway.core.engine`", None),
        ("`python -m gateway.core.motor`", "module"),
        ("`Engine`, `Send(PUBACK)`, `OSError`", None),
        ("`Motor`", "class"),
        ("`Motor.turn`", "class"),
        ("`wake_at()`, `engine.receive(PUBLISH)`, `poll(2)`", None),
        ("`engine.turn()`", "function"),
        ("`gateway.name`, `journal.size_max`, `a/#`, `tidegate/ingest`", None),
        ('`journal.acknowledge = "auto"`', None),
        ("`journal.size_least`", "key"),
        ("`tests/core/test_engine.py::test_frames_are_counted_by_kind`", None),
        ("`tests/core/test_engine.py::test_it_turns`", "test"),
        ("`tests/core/test_motor.py::test_it_turns`", "test"),
        ("```\nudp ──► Motor ──► Send\n```\n", "class"),
        ("```\nudp ──► session.turn ──► Send\n```\n", "function"),
        ("```\nudp ──► session.receive ──► Send ──► SQLite\n```\n```toml\n# Any word\n```\n", None),
    ],
)
def test_a_name_of_something_that_is_not_there_is_found(text: str, fault: str | None) -> None:
    found = list(faults(text))
    assert len(found) == (fault is not None)
    assert all(f"there is no such {fault}" in each for each in found)


def decisions() -> list[Path]:
    return [path for path in sorted(DECISIONS.glob("*.md")) if path.name != "README.md"]


@pytest.mark.parametrize("path", decisions(), ids=lambda path: path.stem)
def test_a_decision_says_why_what_lost_what_follows_and_which_test_holds_it(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(f"# {path.name[:4]}. ")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Context", "Decision", "Rejected", "Consequences", "Tests"]
    rejected, tests = (
        text.split(f"## {heading}\n")[1].split("\n## ")[0] for heading in ("Rejected", "Tests")
    )
    assert re.findall(r"^- \*[^*]+\*: ", rejected, re.MULTILINE)
    assert _TEST.findall(tests)
    assert len(text.splitlines()) <= 60


def test_decisions_are_numbered_without_a_gap_and_all_are_in_the_list() -> None:
    names = [path.name for path in decisions()]
    assert [name[:4] for name in names] == [f"{number:04}" for number in range(1, len(names) + 1)]
    listed = re.findall(
        r"^\| (\d{4}) \| \[(.+)\]\((.+)\) \|$", (DECISIONS / "README.md").read_text(), re.MULTILINE
    )
    titles = [path.read_text().splitlines()[0].removeprefix("# ") for path in decisions()]
    assert [(f"{number}. {title}", name) for number, title, name in listed] == [
        *zip(titles, names, strict=True)
    ]
