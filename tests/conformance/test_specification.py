"""The list of what the specification asks for is whole, and true of the tests that it names.

That docs/conformance.md is as it would be written now is held by tests/house/test_house.py.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.specification import (
    SPECIFICATION,
    WEIGHTS,
    MisspeltError,
    anchor_of,
    document,
    read,
)

TESTS = Path(__file__).parents[1]
REQUIREMENTS = read(SPECIFICATION.read_text(encoding="ascii"))
# Sections of MQTT-SN 1.2 that say what a gateway has to do.
SECTIONS = [
    *(f"5.{section}" for section in ("2.1", "2.2", *(f"3.{part}" for part in range(1, 13)))),
    *(f"5.4.{part}" for part in range(1, 26)),
    "5.5",
    *(f"6.{part}" for part in range(1, 15)),
    *(f"7.{part}" for part in range(1, 5)),
]


@cache
def names_in(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, functions)}


def sections_named(heading: str) -> list[str]:
    """`5.4.6 to 5.4.9 WILLTOPICREQ` is four of them."""
    if span := re.match(r"([\d.]+)\.(\d+) to \1\.(\d+) ", heading):
        return [f"{span[1]}.{part}" for part in range(int(span[2]), int(span[3]) + 1)]
    return re.findall(r"(?:^|, )(\d[\d.]*)", heading)


def test_every_test_that_is_named_exists() -> None:
    named = [test for requirement in REQUIREMENTS for test in requirement.tests]
    assert len(named) > 100
    missing = []
    for test in named:
        path, _, name = test.partition("::")
        if not (TESTS / path).exists() or name not in names_in(path):
            missing.append(test)
    assert missing == []


def test_every_decision_that_is_named_exists() -> None:
    text = (TESTS.parent / "docs" / "spec_decisions.md").read_text(encoding="utf-8")
    anchors = {anchor_of(heading) for heading in re.findall(r"^### (.+)$", text, re.MULTILINE)}
    named = {anchor for requirement in REQUIREMENTS for anchor in requirement.decisions}
    assert named - anchors == set()


def test_every_section_of_the_specification_is_here_and_in_its_order() -> None:
    headings = list(dict.fromkeys(requirement.section for requirement in REQUIREMENTS))
    found = [section for heading in headings for section in sections_named(heading)]
    assert found == ["4", *SECTIONS]


def test_every_requirement_has_a_test_or_says_why_it_has_none() -> None:
    unproven = [each.text for each in REQUIREMENTS if each.status == "unproven"]
    assert unproven == []
    alone = [
        each.text
        for each in REQUIREMENTS
        if each.weight != "may" and not (each.tests or each.missing or each.not_ours)
    ]
    assert alone == [], "a reading is no proof"


def test_every_requirement_is_in_the_document_and_counted_once() -> None:
    text = document(REQUIREMENTS)
    counts = re.findall(rf"^\| (?:{'|'.join(WEIGHTS)}) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.M)
    assert sum(int(count) for row in counts for count in row) == len(REQUIREMENTS)
    assert len(re.findall(r"^- \*\*", text, re.M)) == len(REQUIREMENTS)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("ought: to be so", "line 2: begin with one of must, should, may"),
        ("  frames/test_rows.py::test_x", "line 2: belongs to no requirement"),
        ("must: be so\n  later", "line 3: neither a test nor decided, not yet, not ours"),
    ],
)
def test_a_line_that_says_nothing_is_found(line: str, complaint: str) -> None:
    with pytest.raises(MisspeltError, match=complaint):
        read(f"== 5.2.1 Length\n{line}")


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("SUBACK's topic id", "subacks-topic-id"),
        ('"Congestion" from a client', "congestion-from-a-client"),
        ("Keep-alive 0", "keep-alive-0"),
    ],
)
def test_a_heading_is_linked_as_it_is_read(heading: str, anchor: str) -> None:
    assert anchor_of(heading) == anchor
