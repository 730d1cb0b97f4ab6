"""Every decision on an unclear passage says all it should, and its tests exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.samples import for_each

TESTS = Path(__file__).parents[1]
DOCUMENT = (TESTS.parent / "docs" / "spec_decisions.md").read_text()
ENTRIES = dict(re.findall(r"^### (.+)\n\n((?:- .+\n|  .+\n)+)", DOCUMENT, re.MULTILINE))
PARTS = ["Passage", "Reading", "Reason", "Test"]


def test_every_heading_has_an_entry() -> None:
    assert list(ENTRIES) == re.findall(r"^### (.+)$", DOCUMENT, re.MULTILINE)


@for_each("heading", ENTRIES)
def test_an_entry_has_passage_reading_reason_and_test(heading: str) -> None:
    assert re.findall(r"^- \*\*(\w+)\*\*:\s", ENTRIES[heading], re.MULTILINE) == PARTS


@for_each("heading", ENTRIES)
def test_the_tests_of_an_entry_exist(heading: str) -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", ENTRIES[heading])
    assert named
    for path, name in named:
        assert f"def {name}(" in (TESTS / path).read_text()
