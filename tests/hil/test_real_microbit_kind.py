"""The adapter of real micro:bits, on the emulated one's serial port."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hil.boards.board import BoardSpec, Place, Reset
from hil.boards.errors import BoardError
from hil.boards.microbit.board import MicrobitBoard
from hil.boards.raw_repl import RawRepl
from hil.boards.registry import kinds
from hil.rig.run import Outcome, run
from hil.rig.stage import Setting
from hil.scenarios import scenario
from tests.support.microbit import require_microbit

KIND = kinds()["microbit"]


def test_a_scenario_passes_on_a_micro_bit_that_the_console_prepares(tmp_path: Path) -> None:
    require_microbit()
    for name in ("run", "shelf"):
        (tmp_path / name).mkdir()
    with MicrobitBoard(tmp_path / "flash") as board:
        board.start()
        board.wait_for(">>> ")
        setting = Setting(
            scenario=scenario.read(scenario.FOLDER / "loss.toml"),
            spec=BoardSpec("usb", "microbit", "serial", "tiny", port=board.device),
            kind=KIND,
            seed=1,
            folder=tmp_path / "run",
            shelf=tmp_path / "shelf",
        )
        result = asyncio.run(run(setting))
    assert (result.outcome, result.failures) == (Outcome.PASSED, [])
    assert 0 < result.numbers["heap_used"] < result.numbers["heap_size"] < 12_000


def test_snippets_that_raise_say_so(tmp_path: Path) -> None:
    require_microbit()
    with MicrobitBoard(tmp_path / "flash") as board:
        board.start()
        board.wait_for(">>> ")
        with RawRepl(board.device) as repl:
            assert repl.run("print(6 * 7)") == "42\n"
            repl.put({"octets": bytes(range(200))})
            assert repl.run("print(sum(open('octets', 'rb').read()))") == f"{sum(range(200))}\n"
            with pytest.raises(BoardError, match="NameError"):
                repl.run("absent")


def test_what_a_micro_bit_on_usb_cannot_do_is_told(tmp_path: Path) -> None:
    spec = BoardSpec("usb", "microbit", "serial", "tiny", port="/dev/null")
    board = KIND.make(spec, Place(tmp_path, "", tmp_path))
    with pytest.raises(BoardError, match="line of a micro:bit goes with its power"):
        board.power_cut()
    with pytest.raises(BoardError, match="nobody can press"):
        board.reset(Reset.HARD)
