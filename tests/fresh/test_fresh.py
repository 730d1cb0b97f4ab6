"""What a run says is read right, and the page has every machine and step."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.fresh.document import DOCUMENT, lasted, text_of
from tests.fresh.machines import MACHINES
from tests.fresh.results import Outcome, Result, load, result_of, save

STEPS = Path(__file__).parent / "steps"
SAID = """\
SKIPPED [3] tests/a.py:1: not run: fish is missing
SKIPPED [1] tests/b.py:9: not run: fish is missing
SKIPPED [2] tests/c.py:4: only root can mount
===== 10 passed, 4 skipped in 2.50s =====
=> first line
===== 1 failed, 1,200 passed, 2 skipped in 12.10s (0:00:12) =====
=> last line
"""


def test_tests_of_all_runs_are_counted_and_skips_by_their_reason() -> None:
    said = SAID.replace("1,200", "1200")
    found = result_of(said, 0, 2.0)
    assert found.outcome == Outcome.PASSED
    assert found.words == "last line; 1,210 passed, 6 skipped, 1 failed"
    assert found.skipped == {"fish is missing": 4, "only root can mount": 2}


@pytest.mark.parametrize(
    ("said", "code", "outcome", "words"),
    [
        ("=> fine\n", 0, Outcome.PASSED, "fine"),
        ("=> fine\n", 2, Outcome.FAILED, "fine; exit code 2"),
        ("=> not run: no engine\n", 0, Outcome.NOT_RUN, "no engine"),
        ("=> not run: no engine\n", 1, Outcome.FAILED, "not run: no engine; exit code 1"),
        ("", None, Outcome.FAILED, "not done in its time"),
    ],
)
def test_an_exit_code_decides_and_a_reason_is_told(
    said: str, code: int | None, outcome: Outcome, words: str
) -> None:
    found = result_of(said, code, 1.0)
    assert (found.outcome, found.words) == (outcome, words)


def test_what_was_not_run_this_time_stays(tmp_path: Path) -> None:
    path = tmp_path / "build" / "results.json"
    first, second = Result("passed", 1.0, "a", {"b": 2}), Result("failed", 2.0, "c")
    save("one", {"x": first}, path)
    save("two", {"x": first}, path)
    save("one", {"y": second}, path)
    assert load(path) == {"one": {"y": second}, "two": {"x": first}}


def test_the_page_has_each_machine_with_what_it_did() -> None:
    machine = MACHINES[0]
    step = machine.steps[0]
    text = text_of({machine.name: {step.title: Result("passed", 130.0, "a | b", {"c": 7})}})
    assert f"| {step.title} | 2 min | passed | a \\| b |" in text
    assert f"| 7 | {machine.title} | c |" in text
    assert text.count("| all | | not run | no run has it yet |") == len(MACHINES) - 1
    for each in MACHINES:
        assert f"## {each.title}\n" in text
        assert f"## {each.title}\n" in DOCUMENT.read_text(encoding="utf-8")
    assert lasted(59.4) == "59 s"


def test_a_machine_that_did_not_run_this_time_keeps_what_the_page_has() -> None:
    first, second = MACHINES[0], MACHINES[-1]
    before = text_of({first.name: {first.steps[0].title: Result("passed", 5.0, "", {"c": 7})}})
    after = text_of(
        {second.name: {second.steps[0].title: Result("failed", 6.0, "", {"d": 8})}}, before
    )
    for line in (
        f"| {first.steps[0].title} | 5 s | passed |  |",
        f"| 7 | {first.title} | c |",
        f"| {second.steps[0].title} | 6 s | failed |  |",
        f"| 8 | {second.title} | d |",
    ):
        assert after.count(line) == 1
    assert text_of({}, after) == after


def test_each_script_is_of_a_step_and_sound() -> None:
    scripts = {step.script for each in MACHINES for step in each.steps}
    found = sorted(STEPS.iterdir())
    assert {path.name for path in found} == scripts | {"gateway.sh"}
    for path in found:
        subprocess.run(["bash", "-n", str(path)], check=True)
