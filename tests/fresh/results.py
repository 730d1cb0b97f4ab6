"""What a run found, by machine and step, kept in build/fresh/results.json."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build" / "fresh"
RESULTS = FOLDER / "results.json"
MARK = "=> "
NOT_RUN = "=> not run: "
_CLOSING = re.compile(r"^=+ (.*(?:passed|failed|error|skipped).*) in [0-9.]+s.*=+$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)")
_FOLDER_OF_TESTS = re.compile(r"\S*/pytest-of-\S*/")
_SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] [^ ]+: (?:not run: )?(.*)$", re.MULTILINE)


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Result:
    outcome: str  # an Outcome, also when it was read from the file
    took_s: float
    words: str
    skipped: dict[str, int] = field(default_factory=dict)  # tests, by reason


Results = dict[str, dict[str, Result]]  # by machine and step


def result_of(said: str, exit_code: int | None, took_s: float) -> Result:
    """`exit_code`: None if it was ended at its limit."""
    marked = [line for line in said.splitlines() if line.startswith(MARK)]
    if exit_code is None:
        return Result(Outcome.FAILED, took_s, "not done in its time")
    if exit_code == 0 and marked and marked[-1].startswith(NOT_RUN):
        return Result(Outcome.NOT_RUN, took_s, marked[-1].removeprefix(NOT_RUN))
    words = [line.removeprefix(MARK) for line in marked[-1:]] + counted(said)
    if exit_code:
        words.append(f"exit code {exit_code}")
    outcome = Outcome.FAILED if exit_code else Outcome.PASSED
    return Result(outcome, took_s, "; ".join(words), reasons_of(said))


def counted(said: str) -> list[str]:
    """Tests of all runs of pytest in one, as in `13,500 passed, 214 skipped`."""
    counts: Counter[str] = Counter()
    for closing in _CLOSING.findall(said):
        for number, what in _COUNT.findall(closing):
            counts[what.removesuffix("s") if what == "errors" else what] += int(number)
    return [", ".join(f"{number:,} {what}" for what, number in counts.items())] if counts else []


def reasons_of(said: str) -> dict[str, int]:
    reasons: Counter[str] = Counter()
    for number, reason in _SKIPPED.findall(said):
        reasons[_FOLDER_OF_TESTS.sub(".../", reason.strip())] += int(number)
    return dict(reasons)


def load(path: Path = RESULTS) -> Results:
    if not path.exists():
        return {}
    read = json.loads(path.read_text(encoding="utf-8"))
    return {
        machine: {step: Result(**result) for step, result in row.items()}
        for machine, row in read.items()
    }


def save(machine: str, row: dict[str, Result], path: Path = RESULTS) -> None:
    """In place of what the machine had; other machines stay as they were."""
    merged = {**load(path), machine: row}
    written = {
        name: {step: asdict(result) for step, result in steps.items()}
        for name, steps in merged.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
