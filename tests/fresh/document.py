"""docs/machines.md, of what a run has found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.fresh.machines import MACHINES, Machine
from tests.fresh.results import Result, Results

DOCUMENT = Path(__file__).parents[2] / "docs" / "machines.md"
HEAD = """\
# Machines it was tried on

<!-- Made by `make fresh-test`; do not edit it by hand. -->

Each is a new Debian in a folder, with nothing installed but `git`, `make` and `python3`: no
compiler, no libatomic1, no browser. Its own name is not in `/etc/hosts`, the clone is called
`tidegate`, and while the tests run another gateway has the default ports. What is typed is what
README says; what needs root is the line that was printed. ARM is emulated by qemu-user, where
all takes ten times as long or more; its package has compiled modules.
`make fresh-test` (as root, some hours) does all of it and writes this page.
With `ARGS="--quick"` it has `make quick` for `make test`, with `ARGS="debian-12-user"` one machine;
`ARGS=--list` names them. Each step's whole output is then in `build/fresh/`.
"""
SKIPPED_HEAD = """\
## Tests that were skipped, and why

A test says what it lacks. On a bare machine that is what the administrator may install, and
need not.
"""


def write(results: Results) -> None:
    former = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    DOCUMENT.write_text(text_of(results, former), encoding="utf-8")


def text_of(results: Results, former: str = "") -> str:
    """A machine that has no result here has what `former`, the page so far, says of it."""
    tables = ("\n".join(_table(each, results.get(each.name, {}), former)) for each in MACHINES)
    skipped = "\n".join(_skipped(results, former))
    return "\n\n".join([HEAD.strip(), *tables, SKIPPED_HEAD.strip(), skipped]) + "\n"


def _table(machine: Machine, row: dict[str, Result], former: str) -> Iterator[str]:
    known = re.search(rf"^## {re.escape(machine.title)}\n.*?(?=\n\n## )", former, re.S | re.M)
    if known is not None and not row:
        yield known[0]
        return
    yield f"## {machine.title}"
    yield ""
    yield "| what | how long | | |"
    yield "| --- | --: | --- | --- |"
    if not row:
        yield "| all | | not run | no run has it yet |"
    for step in machine.steps:
        result = row.get(step.title)
        if result is not None:
            words = result.words.replace("|", "\\|")
            yield f"| {step.title} | {lasted(result.took_s)} | {result.outcome} | {words} |"


def lasted(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _skipped(results: Results, former: str) -> Iterator[str]:
    yield "| tests | machine | why |"
    yield "| --: | --- | --- |"
    for machine in MACHINES:
        if machine.name not in results:
            yield from re.findall(rf"^\| \d+ \| {re.escape(machine.title)} \| .*$", former, re.M)
        reasons: Counter[str] = Counter()
        for result in results.get(machine.name, {}).values():
            reasons.update(result.skipped)
        for reason, number in reasons.most_common():
            yield f"| {number} | {machine.title} | {reason.replace('|', chr(92) + '|')} |"
