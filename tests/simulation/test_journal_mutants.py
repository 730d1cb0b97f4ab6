"""The schedules notice each mistake of journal_mutants.py, and the document lists them all."""

from __future__ import annotations

import re

import pytest

from tests.simulation import journal_memory
from tests.simulation.journal_mutants import BEGIN, END, MUTANTS, Mutant, documented, first_catch
from tests.simulation.mutants import DOCUMENT


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_the_schedules_notice(mutant: Mutant) -> None:
    unseen = f"no schedule of {mutant.within} has seen {mutant.promises} broken"
    assert first_catch(mutant) is not None, unseen


def test_the_table_of_mistakes_is_as_its_module_writes_it() -> None:
    document = DOCUMENT.read_text()
    assert BEGIN in document
    assert END in document
    stale = "stale; type  .venv/bin/python -m tests.simulation.journal_mutants"
    assert documented(document) == document, stale


def test_every_promise_of_the_schedules_is_documented_and_breakable() -> None:
    document = DOCUMENT.read_text()
    texts = [text for text in vars(journal_memory).values() if isinstance(text, str)]
    promises = {text for text in texts if re.match(r"J\d ", text)}
    assert len(promises) == 9
    assert {one for one in promises if f"**{one.split()[0]}. " not in document} == set()
    assert promises == {promise for mutant in MUTANTS for promise in mutant.promises}
