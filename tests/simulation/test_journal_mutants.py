"""The schedules notice each mistake of journal_mutants.py, and the document lists them all."""

from __future__ import annotations

import re

import pytest

from tests.simulation import journal_memory
from tests.simulation.journal_mutants import MUTANTS, Mutant, first_catch


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_the_schedules_notice(mutant: Mutant) -> None:
    unseen = f"no schedule of {mutant.within} has seen {mutant.promises} broken"
    assert first_catch(mutant) is not None, unseen


def test_every_promise_of_the_schedules_is_breakable() -> None:
    texts = [text for text in vars(journal_memory).values() if isinstance(text, str)]
    promises = {text for text in texts if re.match(r"J\d ", text)}
    assert len(promises) == 9
    assert promises == {promise for mutant in MUTANTS for promise in mutant.promises}
