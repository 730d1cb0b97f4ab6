"""Nodes with the whole application, as a new board has it, on real MicroPython."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from firmware import image
from hil.boards.wasi.board import WasiBoard
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_udp_port
from tests.firmware.app.fragile_flash import FragileFlash
from tests.firmware.app.listener import Listener
from tests.firmware.app.simulated_flash import SimulatedFlash
from tests.firmware.app.tap import Tap
from tests.firmware.app.timekeeper import Timekeeper
from tests.support.boards import require_board

KEY = bytes(range(16))
HEAP = "64k"
NAMES = itertools.count(1)
NodeMaker = Callable[..., WasiBoard]
FlashMaker = Callable[[int], FragileFlash]


@pytest.fixture(params=["fat", "littlefs"])
def new_flash(request: pytest.FixtureRequest) -> FlashMaker:
    """Call it with a seed, which decides what a power cut leaves of an operation."""
    if request.param == "fat":
        return lambda seed: SimulatedFlash(seed=seed)
    pytest.importorskip("littlefs", reason="not run: littlefs-python has no build for this machine")
    from tests.firmware.app.littlefs_flash import LittleFsFlash

    return lambda seed: LittleFsFlash(seed=seed)


@pytest.fixture(scope="session")
def node_files() -> dict[str, bytes]:
    require_board()
    files = image.application(1)
    return {"main.py": image.MAIN} | image.loader() | {f"a/{name}": files[name] for name in files}


@pytest.fixture(scope="session")
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as mosquitto:
        yield mosquitto


@pytest.fixture(scope="session")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, broker: Mosquitto
) -> Iterator[GatewayProcess]:
    """One for all: each test has a node of another name."""
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), broker.url) as process:
        process.wait_until_connected()
        yield process


@pytest.fixture
def name() -> str:
    return f"node-{next(NAMES)}"


@pytest.fixture
def tap(gateway: GatewayProcess) -> Iterator[Tap]:
    with Tap(gateway.port) as relay:
        yield relay


@pytest.fixture
def listener(broker: Mosquitto, name: str) -> Iterator[Listener]:
    with Listener(broker, name) as heard:
        yield heard


@pytest.fixture
def timekeeper(broker: Mosquitto) -> Iterator[Timekeeper]:
    with Timekeeper(broker) as keeper:
        yield keeper


def settings(name: str, port: int, **others: Any) -> dict[str, Any]:
    return {
        "id": name,
        "gateways": [["127.0.0.1", port]],
        "local_port": free_udp_port(),
        "interval_s": 60,
        "retry_ms": 300,  # a busy machine keeps the gateway from answering for so long, not thrice
        "sensors": [{"kind": "simulated", "name": "temperature"}],
        **others,
    }


@pytest.fixture
def new_node(node_files: dict[str, bytes], tmp_path: Path, name: str) -> NodeMaker:
    """Call it with what its settings are to have, beside the port of its gateway."""

    def make(port: int, heap: str = HEAP, uarts: tuple[str, ...] = (), **others: Any) -> WasiBoard:
        board = WasiBoard(tmp_path / "node", heap=heap, uarts=uarts)
        for path, content in node_files.items():
            board.put(path, content)
        board.put("settings.json", json.dumps(settings(name, port, **others)))
        board.put("secrets.json", json.dumps({"update_key": KEY.hex()}))
        return board

    return make


def woken(board: WasiBoard) -> str:
    """One wake, to its sleep; what it printed."""
    outcome = board.run("import main")
    assert outcome.how == "deepsleep", (outcome, board.output)
    return board.output
