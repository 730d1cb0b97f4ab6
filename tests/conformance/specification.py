"""Reads `specification.txt`, whose head explains it, and writes docs/conformance.md from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap

SPECIFICATION = Path(__file__).with_name("specification.txt")
WEIGHTS = ("must", "should", "may")
COLUMNS = 118

HEAD = """\
# Conformance to MQTT-SN 1.2

<!-- Made by `python -m tests.conformance`. -->

What the specification asks of a gateway, section by section in our own words, and the tests that
fail when it is not so, by their path below `tests/`. Where a passage is unclear, the link leads to
[our reading](spec_decisions.md).

In addition, `conformance/matrix.txt` says for each of the 256 message types, in each state of a
client, whole, cut and too long, what is answered, what state follows and what is counted;
`conformance/test_matrix.py` holds the gateway to it.

This page is written by `python -m tests.conformance` from `tests/conformance/specification.txt`.
"""


@dataclass
class Requirement:
    section: str
    weight: str
    text: str
    tests: list[str] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    not_ours: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        if self.missing:
            return "not yet"
        if self.tests or self.decisions:
            return "held"
        return "not ours" if self.not_ours else "unproven"


class MisspeltError(Exception):
    """A line of `specification.txt` that says nothing, with its number."""


def read(text: str) -> list[Requirement]:
    found: list[Requirement] = []
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith("== "):
            section = line.removeprefix("== ")
        elif not line.startswith(" "):
            weight, colon, words = line.partition(": ")
            if weight not in WEIGHTS or not colon:
                raise MisspeltError(
                    f"line {number}: begin with one of {', '.join(WEIGHTS)}: {line}"
                )
            found.append(Requirement(section, weight, words))
        elif not found or found[-1].section != section:
            raise MisspeltError(f"line {number}: belongs to no requirement: {line}")
        else:
            _add(found[-1], line.strip(), number)
    return found


def _add(requirement: Requirement, said: str, number: int) -> None:
    kind, _, rest = said.partition(": ")
    if re.fullmatch(r"[\w/]+\.py::test_\w+", said):
        requirement.tests.append(said)
    elif kind == "decided":
        requirement.decisions.append(rest)
    elif kind == "not yet":
        requirement.missing.append(rest)
    elif kind == "not ours":
        requirement.not_ours.append(rest)
    else:
        raise MisspeltError(f"line {number}: neither a test nor decided, not yet, not ours: {said}")


def document(requirements: list[Requirement]) -> str:
    lines = [HEAD, *_summary(requirements)]
    section = ""
    for requirement in requirements:
        if requirement.section != section:
            section = requirement.section
            lines += [f"\n## {section}\n"]
        lines += _entry(requirement)
    return "\n".join(lines) + "\n"


def _summary(requirements: list[Requirement]) -> Iterator[str]:
    yield "| | held by tests | not yet | not for this gateway |"
    yield "| --- | --: | --: | --: |"
    for weight in WEIGHTS:
        statuses = [each.status for each in requirements if each.weight == weight]
        counts = (statuses.count(status) for status in ("held", "not yet", "not ours"))
        yield f"| {weight} | " + " | ".join(map(str, counts)) + " |"


def _entry(requirement: Requirement) -> Iterator[str]:
    yield from wrap(
        f"- **{requirement.weight}** {requirement.text}", COLUMNS, subsequent_indent="  "
    )
    for words in requirement.missing:
        yield from wrap(f"  - **not yet**: {words}", COLUMNS, subsequent_indent="    ")
    for words in requirement.not_ours:
        yield from wrap(f"  - not ours: {words}", COLUMNS, subsequent_indent="    ")
    for test in requirement.tests:
        yield f"  - `{test}`"
    for anchor in requirement.decisions:
        yield f"  - [our reading](spec_decisions.md#{anchor})"


def anchor_of(heading: str) -> str:
    """As Markdown's readers make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
