"""The worlds notice each mistake of mutants.py, and docs/guarantees.md lists them all."""

from __future__ import annotations

import warnings

import pytest

from tests.simulation.mutant import Mutant
from tests.simulation.mutants import MUTANTS, first_catch, noted_seeds

pytestmark = pytest.mark.no_cover  # as of the worlds


@pytest.mark.guarantee("9")
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_the_worlds_notice(mutant: Mutant) -> None:
    unseen = f"no world of {mutant.within} has seen promise {mutant.promise} broken"
    noted = noted_seeds()[mutant.name]
    assert max(noted) < mutant.within, "not one of the worlds that the table promises"
    if first_catch(mutant, noted) is None:
        stale = "stale seeds; type  .venv/bin/python -m tests.simulation.mutants --stale"
        warnings.warn(stale, stacklevel=1)
        assert first_catch(mutant, range(mutant.within)) is not None, unseen
