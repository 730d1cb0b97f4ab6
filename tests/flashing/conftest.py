"""A micro:bit with MicroPython and nothing else on it; a broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.boards.microbit.board import MicrobitBoard
from hil.rig.mosquitto import Mosquitto
from tests.support.microbit import require_microbit


@pytest.fixture
def microbit(tmp_path: Path) -> Iterator[MicrobitBoard]:
    require_microbit()
    with MicrobitBoard(tmp_path / "microbit") as board:
        board.start()
        board.wait_for(">>> ")
        yield board


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as mosquitto:
        yield mosquitto
