"""The tests of a file share a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.admin.web.browser import KEPT


@pytest.fixture(scope="module", autouse=True)
def browser_of_the_file() -> Iterator[None]:
    yield
    KEPT.close()
