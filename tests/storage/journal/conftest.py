"""No descriptor outlasts a test: some of them end a run of the journal as a power cut does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.journal.support import OPEN


@pytest.fixture(autouse=True)
def _close_journals() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()
