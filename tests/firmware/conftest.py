"""The node's library, compiled once, and boards that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hil.boards.wasi.board import WasiBoard
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.firmware.serial_line import SerialLine
from tests.support.boards import board_with, built, require_board

BoardMaker = Callable[..., WasiBoard]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_board()
    return built(tmp_path_factory.mktemp("library"))


@pytest.fixture
def new_board(library: Path, tmp_path: Path) -> BoardMaker:
    """Call it for a board with an empty flash but for the library."""
    made: list[WasiBoard] = []

    def make(heap: str = "32k", uarts: tuple[str, ...] = ()) -> WasiBoard:
        flash = tmp_path / f"flash{len(made)}"
        made.append(board_with(library, flash, heap=heap, uarts=uarts))
        return made[-1]

    return make


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as mosquitto:
        yield mosquitto


@pytest.fixture
def gateway(tmp_path: Path, broker: Mosquitto) -> Iterator[GatewayProcess]:
    folder = tmp_path / "gateway"
    folder.mkdir()
    with GatewayProcess(folder, broker.url, CONFIG) as process:
        process.wait_until_connected()
        yield process


@pytest.fixture
def line() -> Iterator[SerialLine]:
    with SerialLine() as wire:
        yield wire


@pytest.fixture
def serial_gateway(tmp_path: Path, broker: Mosquitto, line: SerialLine) -> Iterator[GatewayProcess]:
    folder = tmp_path / "gateway"
    folder.mkdir()
    config = f'[[serial]]\nport = "{line.gateway_port}"\n'
    with GatewayProcess(folder, broker.url, config) as process:
        process.wait_until_connected()
        yield process


CONFIG = """
[predefined_topics]
"fixed/one" = 1
"fixed/two" = 2
[qos_minus_one]
allow = true
"""
