"""The emulated micro:bit is what it says: its memory, its flash, its line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.flashing.console import Console, SnippetError, who
from hil.boards.errors import BoardError
from hil.boards.microbit.board import FIRMWARE, MicrobitBoard
from hil.boards.raw_repl import RawRepl
from tests.support.microbit import require_microbit

COUNT = """
try:
 f = open("n")
 n = int(f.read())
 f.close()
except OSError:
 n = 0
f = open("n", "w")
f.write(str(n + 1))
f.close()
print("life", n + 1)
"""


@pytest.fixture
def board(tmp_path: Path) -> Iterator[MicrobitBoard]:
    require_microbit()
    with MicrobitBoard(tmp_path / "board") as made:
        made.start()
        made.wait_for(">>> ")
        yield made


def test_it_is_micropython_1_9_in_16_kib(board: MicrobitBoard) -> None:
    with Console(board.device) as console:
        console.stop()
        identity = who(console)
        free = int(console.run("import gc\ngc.collect()\nprint(gc.mem_free())"))
    assert identity.version == (1, 9, 2)
    assert identity.machine == "micro:bit with nRF51822"
    assert 8_000 < free < 10_000


def test_octets_of_every_value_go_both_ways(board: MicrobitBoard) -> None:
    octets = bytes(range(256))
    with Console(board.device) as console:
        console.stop()
        assert console.run(f"print({octets!r})") == f"{octets!r}\n"


FILL = "held = None\nwhile True:\n held = (held,)"


def test_one_that_was_stopped_without_room_for_a_line_is_given_room(board: MicrobitBoard) -> None:
    with Console(board.device) as console, suppress(SnippetError):
        console.stop()
        console.run(FILL)
    with Console(board.device) as console:
        console.stop()
        assert console.run("print(1)") == "1\n"
    with RawRepl(board.device) as repl, suppress(BoardError):
        repl.run(FILL)
    with RawRepl(board.device) as repl:
        assert repl.run("print(1)") == "1\n"


def test_its_flash_outlasts_reset_and_power_cut(board: MicrobitBoard) -> None:
    with Console(board.device) as console:
        console.stop()
        console.run(f"f = open('main.py', 'w')\nf.write({COUNT!r})\nf.close()")
    board.reset()
    board.wait_for("life 1")
    board.cut_power()
    board.start()
    board.wait_for("life 2")


def test_a_programmer_leaves_nothing_of_what_was_there(board: MicrobitBoard) -> None:
    with Console(board.device) as console:
        console.stop()
        console.run("f = open('kept', 'w')\nf.write('x')\nf.close()")
    board.cut_power()
    board.erase(FIRMWARE)
    board.start()
    with Console(board.device) as console:
        console.stop()
        assert console.run("import os\nprint(os.listdir())").strip() == "[]"


def test_what_it_never_says_is_an_error_with_what_it_said(board: MicrobitBoard) -> None:
    with pytest.raises(BoardError, match=r"no 'absent' in what[^$]*MicroPython v1\.9\.2"):
        board.wait_for("absent", timeout_s=0.1)
