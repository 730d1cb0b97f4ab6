"""Prints docs/guarantees.md: `python -m tests.guarantees >docs/guarantees.md`."""

from __future__ import annotations

import sys

from tests.guarantees.document import PROMISES, REPOSITORY, document, marked_tests
from tests.simulation import journal_mutants, mutants

if __name__ == "__main__":
    tables = {"mutants": mutants.table(), "journal mutants": journal_mutants.table()}
    text = PROMISES.read_text(encoding="utf-8")
    sys.stdout.write(document(text, marked_tests(REPOSITORY), tables))
