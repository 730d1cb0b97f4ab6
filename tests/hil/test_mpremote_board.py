"""The adapter of real boards, by the real mpremote, on real MicroPython with its console on a port.

That MicroPython is the simulated board; it plays an ESP32 whose button and relay are fakes, which
cut its power. It has no WLAN: what it says goes by this machine's loopback.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.boards import programs
from hil.boards.board import BoardSpec, Place, Reset
from hil.boards.errors import BoardError
from hil.boards.mpremote import WIPE, MpremoteBoard
from hil.boards.raw_repl import RawRepl
from hil.boards.registry import kinds
from hil.rig.run import Outcome, run
from hil.rig.stage import Setting
from hil.scenarios import scenario
from tests.hil.fake_programs import FakePrograms
from tests.support.boards import require_board
from tests.support.console_board import ConsoleBoard

ESP32 = kinds()["esp32"]


@pytest.fixture
def esp32(tmp_path: Path) -> Iterator[ConsoleBoard]:
    require_board()
    if programs.find("mpremote") is None:
        pytest.skip("not run, mpremote is not installed (pip install mpremote)")
    with ConsoleBoard(tmp_path / "flash") as board:
        yield board


@pytest.fixture
def fakes(tmp_path: Path) -> FakePrograms:
    return FakePrograms(tmp_path / "fakes")


def spec_of(board: ConsoleBoard, fakes: FakePrograms) -> BoardSpec:
    relay = fakes.add("relay")
    return BoardSpec(
        "esp32",
        "esp32",
        "udp",
        "node",
        port=board.device,
        power="command",
        power_off=(relay, "off"),
        power_on=(relay, "on"),
        power_settles_s=0.0,
        capabilities=frozenset(ESP32.capabilities),
    )


def adapter(folder: Path, spec: BoardSpec, *button: str) -> MpremoteBoard:
    (folder / "shelf").mkdir(exist_ok=True)
    return MpremoteBoard(spec, Place(folder / "board", "", folder / "shelf"), button)


def test_a_scenario_passes_on_a_board_that_mpremote_prepares(
    tmp_path: Path, esp32: ConsoleBoard, fakes: FakePrograms
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "shelf").mkdir()
    setting = Setting(
        scenario=scenario.read(scenario.FOLDER / "soft_reset.toml"),
        spec=spec_of(esp32, fakes),
        kind=ESP32,
        seed=1,
        folder=tmp_path / "run",
        shelf=tmp_path / "shelf",
    )
    result = asyncio.run(run(setting))
    assert (result.outcome, result.failures) == (Outcome.PASSED, [])
    assert fakes.calls == ["relay off"]  # at the end


def test_files_are_put_and_snippets_run(
    tmp_path: Path, esp32: ConsoleBoard, fakes: FakePrograms
) -> None:
    board = adapter(tmp_path, spec_of(esp32, fakes))
    board.put({"deep/er/one": b"\x00\xff", "two": b"2"})
    assert board.exec("print(open('/deep/er/one', 'rb').read())") == "b'\\x00\\xff'\n"
    with pytest.raises(BoardError, match="ZeroDivisionError"):
        board.exec("1 // 0")


def test_a_board_is_emptied_before_it_is_prepared_but_for_boot_py(
    tmp_path: Path, esp32: ConsoleBoard, fakes: FakePrograms
) -> None:
    board = adapter(tmp_path, spec_of(esp32, fakes))
    board.put({"boot.py": b"x = 1\n", "a/b/c": b"old", "main.py": b"print(1)\n"})
    board.exec(WIPE)
    assert [path.name for path in esp32.flash.iterdir()] == ["boot.py"]


def test_its_button_is_a_program_and_without_one_its_power(
    tmp_path: Path, esp32: ConsoleBoard, fakes: FakePrograms
) -> None:
    esptool = fakes.add("esptool")
    spec = spec_of(esp32, fakes)
    with_button = adapter(tmp_path, spec, esptool, "--port", spec.port, "run")
    with_button.reset(Reset.HARD)
    with_button.kill()
    without = adapter(tmp_path, spec)
    without.reset(Reset.HARD)
    without.kill()
    assert fakes.calls == [
        f"esptool --port {spec.port} run",
        "relay off",
        "relay off",
        "relay on",
        "relay off",
    ]


def test_the_button_of_an_esp32_is_esptools(tmp_path: Path) -> None:
    spec = BoardSpec("esp32", "esp32", "udp", "node", port="/dev/null")
    board = ESP32.make(spec, Place(tmp_path, "", tmp_path))
    assert isinstance(board, MpremoteBoard)
    assert board.button == ("esptool", "--port", "/dev/null", "run")


def test_power_cannot_be_cut_at_a_share_of_a_wake(tmp_path: Path) -> None:
    spec = BoardSpec("esp32", "esp32", "udp", "node", port="/dev/null")
    with pytest.raises(BoardError, match="not at a share"):
        adapter(tmp_path, spec).power_cut(0.5)


def test_a_board_that_does_not_answer_is_told_so() -> None:
    near, far = os.openpty()
    try:
        with (
            pytest.raises(BoardError, match=r"no MicroPython answers on .*: is it there, awake"),
            RawRepl(os.ttyname(far), timeout_s=0.5),
        ):
            pass
    finally:
        os.close(near)
        os.close(far)
