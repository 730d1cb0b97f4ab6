"""What tests of several verbs share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.doctor import Doctor


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    return Doctor(tmp_path)
