"""The power goes at an exact instruction: while a node measures, stores, sends, and updates itself.

A reading that the store has taken ("stored N" on the console) arrives; what arrives is what was
measured; the node always comes back by itself. The sensor measures a number and what can be told
from it, so that a corrupt reading is seen.
"""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

from firmware import image
from hil.boards.wasi.board import WasiBoard
from hil.rig.gateway import GatewayProcess
from tests.firmware.app.conftest import NodeMaker
from tests.firmware.app.listener import Listener
from tests.firmware.app.power_cuts import IMPORTS_ONLY, Lives
from tests.firmware.app.test_update_on_board import OtaServerProcess, ota_server, published
from tests.firmware.app.timekeeper import Timekeeper

__all__ = ["ota_server"]

DRIVER = """
from random import getrandbits
class Sensor:
    def __init__(self, spec, board): pass
    def start(self): return 0
    def read(self):
        x = getrandbits(20)
        return [("x", "", x, 0), ("check", "", x * 7919 % 10007, 0)]
"""
SOAK_POINTS, QUICK_POINTS = 1000, 12
SOAK_UPDATES, QUICK_UPDATES = 1000, 3


@pytest.fixture
def node(new_node: NodeMaker, gateway: GatewayProcess) -> WasiBoard:
    sensors = [{"kind": "drivers.checked"}]
    board = new_node(gateway.port, listen_every=1, log_level=7, sensors=sensors)
    board.put("drivers/checked.py", DRIVER)
    return board


def through_store_and_send(node: WasiBoard, listener: Listener, points: int, seed: int) -> None:
    dice = random.Random(seed)
    stored: set[int] = set()
    with Lives(node.flash) as lives:
        begin = lives.run_program(program=IMPORTS_ONLY).fuel
        end = lives.run_program().fuel
        for point in range(points):
            for _ in range(dice.choice((1, 1, 2))):
                cut = lives.run_program(fuel=dice.randrange(begin, end))
                stored |= {int(each) for each in re.findall(r"stored (\d+)", cut.output)}
            whole = lives.run_program()
            assert whole.how == "deepsleep", (seed, point, whole)
            assert "safe" not in whole.output
            stored |= {int(each) for each in re.findall(r"stored (\d+)", whole.output)}
            end = max(end, whole.fuel)
    listener.wait_for(lambda: stored <= listener.readings().keys())
    assert len(stored) > points
    values: dict[int, float | None] = {}
    for sequence, pack in listener.readings().items():
        x, check = pack.value("x"), pack.value("check")
        assert x is not None
        assert check == x * 7919 % 10007, (seed, pack)
        assert values.setdefault(sequence, x) == x


def test_no_reading_is_lost_or_corrupt_wherever_the_power_goes(
    node: WasiBoard, timekeeper: Timekeeper, listener: Listener
) -> None:
    through_store_and_send(node, listener, QUICK_POINTS, seed=1)


@pytest.mark.soak
def test_no_reading_is_lost_or_corrupt_at_a_thousand_points(
    node: WasiBoard, timekeeper: Timekeeper, listener: Listener
) -> None:
    through_store_and_send(node, listener, SOAK_POINTS, seed=2)


def through_an_update(
    node: WasiBoard, ota_server: OtaServerProcess, folder: Path, points: int, seed: int
) -> None:
    dice = random.Random(seed)
    fresh = folder / "fresh"
    with Lives(node.flash) as lives:
        assert "1 in a" in lives.run_program().output
        shutil.copytree(node.flash, fresh)
        ota_server.serve(published(folder, 2, image.image(image.application(2))))
        begin = lives.run_program(program=IMPORTS_ONLY).fuel
        update = lives.run_program()
        assert update.how == "reset"
        for point in range(points):
            shutil.rmtree(node.flash)
            shutil.copytree(fresh, node.flash)
            with Lives(node.flash) as fragile:
                for _ in range(dice.randrange(1, 4)):
                    fragile.run_program(fuel=dice.randrange(begin, update.fuel))
                seen = [fragile.run_program() for _ in range(3)]
            assert seen[-1].how == "deepsleep", (seed, point, seen)
            assert "2 in b" in seen[-1].output, (seed, point, seen)


def test_an_update_is_whole_or_not_at_all_wherever_the_power_goes(
    node: WasiBoard, ota_server: OtaServerProcess, tmp_path: Path
) -> None:
    through_an_update(node, ota_server, tmp_path, QUICK_UPDATES, seed=1)


@pytest.mark.soak
def test_an_update_is_whole_or_not_at_all_at_a_thousand_points(
    node: WasiBoard, ota_server: OtaServerProcess, tmp_path: Path
) -> None:
    through_an_update(node, ota_server, tmp_path, SOAK_UPDATES, seed=2)
