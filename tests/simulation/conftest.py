from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Coverage is of the tests that know what they run; it doubles the time of a world."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.no_cover)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What the state store says of simulated disks is nobody's business."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
