"""For all tests: no example of a property has to be done in a given time, and coverage is not of
all of them.

The machines that run these tests are shared, and a Raspberry Pi is twenty times slower than some.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("tidegate", deadline=None)
settings.load_profile("tidegate")

# Many inputs on ways that other tests go too; while coverage is measured they take three times as
# long.
MEASURED_BY_OTHERS = (
    "conformance/test_matrix.py",
    "conformance/test_mutated_datagrams.py",
    "lines/test_any_octets.py",
    "session/test_memory.py",
    "test_downlink_power_cuts.py",
    "test_engine_any_input.py",
    "test_engine_any_input_saved.py",
)
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.relative_to(_HERE).as_posix() in MEASURED_BY_OTHERS:
            item.add_marker(pytest.mark.no_cover)
