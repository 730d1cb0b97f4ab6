"""What a run of the suite found, a cell for each broker and feature, kept in build/brokers.json."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "build" / "brokers.json"
WORDS_MAX = 160
_CASE = re.compile(r"::test_(\w+)\[(.+)\]$")


class Outcome(Enum):
    YES = "yes"
    NO = "no"
    REFUSED = "refused"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Cell:
    outcome: str
    words: str = ""


Cells = dict[str, dict[str, Cell]]  # by broker and feature


class Recorder:
    """A plugin of pytest's; also where tests are shared out to processes."""

    def __init__(self) -> None:
        self.cells: Cells = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = _CASE.search(report.nodeid)
        if found is None or (report.passed and report.when != "call"):
            return
        feature, broker = found.groups()
        row = self.cells.setdefault(broker, {})
        if report.when == "teardown" and not report.failed:
            return
        row[feature] = cell_of(report)


def cell_of(report: pytest.TestReport) -> Cell:
    words = str(dict(report.user_properties).get("cell", ""))
    if report.passed:
        refused = words.startswith(Outcome.REFUSED.value)
        return Cell((Outcome.REFUSED if refused else Outcome.YES).value, words)
    if report.skipped and hasattr(report, "wasxfail"):
        return Cell(Outcome.NO.value, str(report.wasxfail).removeprefix("reason: "))
    if report.skipped:
        assert isinstance(report.longrepr, tuple)
        reason = report.longrepr[2].removeprefix("Skipped: ")
        return Cell(Outcome.NOT_RUN.value, reason.removeprefix("not run: "))
    return Cell(Outcome.NO.value, _last_words(report))


def _last_words(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash is not None else report.longreprtext
    line = str(message).strip().split("\n")[0]
    return f"the test failed: {line}"[:WORDS_MAX]


def load(path: Path = RESULTS) -> Cells:
    if not path.exists():
        return {}
    read = json.loads(path.read_text(encoding="utf-8"))
    return {
        broker: {feature: Cell(**cell) for feature, cell in row.items()}
        for broker, row in read.items()
    }


def save(cells: Cells, path: Path = RESULTS) -> None:
    """What was not run this time stays as it was."""
    merged = load(path)
    for broker, row in cells.items():
        merged.setdefault(broker, {}).update(row)
    path.parent.mkdir(exist_ok=True)
    written = {
        broker: {feature: asdict(cell) for feature, cell in row.items()}
        for broker, row in merged.items()
    }
    path.write_text(json.dumps(written, indent=1, sort_keys=True) + "\n", encoding="utf-8")
