"""Each promise has its tests, each marker its promise, and docs/guarantees.md has them all."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.guarantees.document import (
    PROMISES,
    REPOSITORY,
    GuaranteeError,
    document,
    marked_tests,
)
from tests.simulation import (
    bounds,
    downlink_watch,
    ending_watch,
    journal_memory,
    lateness,
    liveness,
    model_ingest,
    watch,
    will_watch,
)

NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
TEXT = """\
# Promises

**1. Safe.** It is safe.

<!-- tests of 1 -->

**2a. Once.** It comes once.

<!-- tests of 2a -->

<!-- mistakes -->
The end.
"""
TESTS = {"1": ["tests/test_a.py::test_a", "tests/test_a.py::test_b"], "2a": ["tests/c.py::test_c"]}


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def test_the_tests_of_a_promise_stand_below_it() -> None:
    made = document(TEXT, TESTS, {"mistakes": "| a | b |\n"})
    assert "safe.\n\n- `tests/test_a.py::test_a`\n- `tests/test_a.py::test_b`\n\n**2a." in made
    assert made.endswith("- `tests/c.py::test_c`\n\n| a | b |\nThe end.\n")


@pytest.mark.parametrize(
    ("text", "tests", "why"),
    [
        (TEXT, {"1": TESTS["1"]}, "promise 2a has no test"),
        (TEXT, TESTS | {"3": ["tests/d.py::test_d"]}, r"no promise 3: tests/d\.py::test_d"),
        (TEXT.replace("<!-- tests of 2a -->\n", ""), TESTS, "promise 2a has no place"),
        (TEXT.replace("**2a. ", "**2. "), TESTS | {"2": ["x"]}, "no promise 2a, which has a place"),
        (TEXT + "**1. Safe.** Again.\n", TESTS, "promise 1 is there twice"),
    ],
)
def test_what_does_not_fit_together_is_named(
    text: str, tests: dict[str, list[str]], why: str
) -> None:
    with pytest.raises(GuaranteeError, match=why):
        document(text, tests, {})


def test_a_test_is_found_by_its_marker(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text(
        "import pytest\n\n"
        '@pytest.mark.guarantee("1", "2a")\n@pytest.mark.soak\ndef test_a() -> None: ...\n\n'
        "def test_b() -> None: ...\n"
    )
    name = "tests/test_a.py::test_a"
    assert marked_tests(tmp_path) == {"1": [name], "2a": [name]}


def test_a_test_that_the_text_names_exists() -> None:
    named = NAMED_TEST.findall(PROMISES.read_text())
    missing = [f"{path}::{name}" for path, name in named if name not in names_in(REPOSITORY / path)]
    assert missing == []
    assert len(named) > 5


def test_every_promise_that_the_simulation_checks_is_one_of_them() -> None:
    checked = {
        watch.SAFE,
        watch.ONCE,
        watch.IN_ORDER,
        watch.NO_HOLES,
        bounds.BOUNDED,
        will_watch.WILLS,
        model_ingest.INGESTED,
        lateness.NOT_THERE,
        liveness.LIVENESS,
        ending_watch.ENDINGS,
        downlink_watch.ONE_AT_A_TIME,
        downlink_watch.IN_ORDER,
        downlink_watch.NOTHING_MISSED,
        downlink_watch.ONCE,
        downlink_watch.RETAINED_ONCE,
        downlink_watch.LATEST_VALUE,
    }
    of_the_journal = [each for each in vars(journal_memory).values() if isinstance(each, str)]
    checked |= {each for each in of_the_journal if re.match(r"J\d ", each)}
    assert {each.split()[0] for each in checked} <= set(marked_tests(REPOSITORY))
