from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What the state store says of simulated disks is nobody's business."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
