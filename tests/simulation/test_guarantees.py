"""docs/guarantees.md names tests that are there, and every promise that the worlds hold."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.simulation import (
    bounds,
    downlink_watch,
    ending_watch,
    lateness,
    liveness,
    model_ingest,
    watch,
    will_watch,
)
from tests.simulation.mutants import DOCUMENT

REPOSITORY = DOCUMENT.parents[1]
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def test_every_test_that_guards_a_promise_exists() -> None:
    named = NAMED_TEST.findall(DOCUMENT.read_text())
    assert len(named) > 20
    missing = [f"{path}::{name}" for path, name in named if name not in names_in(REPOSITORY / path)]
    assert missing == []


def test_every_promise_of_the_worlds_is_documented() -> None:
    document = DOCUMENT.read_text()
    promises = {
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
    numbers = {promise.split()[0] for promise in promises}
    assert {number for number in numbers if f"**{number}. " not in document} == set()
