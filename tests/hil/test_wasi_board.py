"""The simulated board is what it says: real MicroPython, with a real limit of memory."""

from __future__ import annotations

import os
import pty
import socket
import tty
from pathlib import Path

import pytest

from hil.boards.errors import BoardError
from hil.boards.wasi.board import WasiBoard
from hil.boards.wasi.outcome import Outcome
from tests.support.boards import require_board


@pytest.fixture(autouse=True)
def _needs_a_board() -> None:
    require_board()


def run(board: WasiBoard, program: str) -> str:
    outcome = board.run(program)
    assert (outcome.how, outcome.code) == ("exit", 0), board.output
    return board.output.strip()


def test_it_is_micropython_with_32_bit_objects(tmp_path: Path) -> None:
    program = "import sys\nprint(sys.implementation.name, sys.maxsize)"
    assert run(WasiBoard(tmp_path), program) == f"micropython {2**31 - 1}"


def test_its_heap_ends_where_it_is_said_to(tmp_path: Path) -> None:
    program = """
import gc
print(gc.mem_free() + gc.mem_alloc())
try:
    bytearray(33_000)
except MemoryError:
    print("full")
"""
    size, full = run(WasiBoard(tmp_path, heap="32k"), program).split()
    assert 30_000 < int(size) <= 32 * 1024
    assert full == "full"


@pytest.mark.parametrize("number", [5, 10, 12, 30])
def test_what_functions_hold_outlasts_collections_in_those_they_call(
    tmp_path: Path, number: int
) -> None:
    """The interpreter as it is published loses the locals of a function with ten or more."""
    names = [f"v{each}" for each in range(number)]
    values = "\n    ".join(f"{name} = [{at}]" for at, name in enumerate(names))
    program = f"""
import gc
def waste(*details):
    gc.collect()
    return [bytes(40) for _ in range(40)]
def hold(number):
    {values}
    waste(number, b"x" * number, [number])
    return {" + ".join(f"{name}[0]" for name in names)}
print({{hold(each) for each in range(200)}})
print(len({{str(number) for number in range(500)}}))
"""
    assert run(WasiBoard(tmp_path, heap="48k"), program) == f"{{{sum(range(number))}}}\n500"


def test_a_program_that_raises_ends_with_1_and_shows_where(tmp_path: Path) -> None:
    board = WasiBoard(tmp_path)
    board.put("main.py", "def measure():\n    return 1 // 0\nmeasure()\n")
    assert board.run("import main") == Outcome("exit", 1, fuel_used=board_fuel(board))
    assert 'File "main.py", line 2, in measure' in board.output


def board_fuel(board: WasiBoard) -> int:
    """The same program costs the same."""
    return board.run("import main").fuel_used


def test_its_flash_is_a_folder_that_outlasts_its_lives(tmp_path: Path) -> None:
    board = WasiBoard(tmp_path / "flash")
    run(board, "open('kept', 'w').write('21.5')")
    assert (tmp_path / "flash" / "kept").read_text() == "21.5"
    assert run(board, "print(open('kept').read())") == "21.5"


DEEP_SLEEPER = """
import machine
memory = machine.RTC()
print(machine.reset_cause(), memory.memory())
memory.memory(memory.memory() + b"x")
machine.{end}
"""


def test_deep_sleep_and_reset_keep_the_rtc_memory_and_a_power_cut_does_not(tmp_path: Path) -> None:
    board = WasiBoard(tmp_path)
    assert board.run(DEEP_SLEEPER.format(end="deepsleep(500)")).sleep_ms == 500
    assert board.output == "1 b''\n"
    assert board.run(DEEP_SLEEPER.format(end="reset()")).how == "reset"
    assert board.output == "4 b'x'\n"
    with board.start(DEEP_SLEEPER.format(end="reset_cause()\nwhile True: pass")) as life:
        assert life.wait_for("b'xx'").group() == "b'xx'"
    assert board.run(DEEP_SLEEPER.format(end="reset()")).how == "reset"
    assert board.output == "1 b''\n"


def test_too_much_for_the_rtc_memory_is_an_error_as_on_a_board(tmp_path: Path) -> None:
    program = "import machine\ntry:\n    machine.RTC().memory(bytes(2049))\nexcept OSError:\n"
    assert run(WasiBoard(tmp_path), program + "    print('too much')") == "too much"


def test_the_power_can_be_cut_at_any_instruction_and_always_at_the_same(tmp_path: Path) -> None:
    program = "for number in range(1000):\n    print(number)\n"
    board = WasiBoard(tmp_path)
    whole = board.run(program).fuel_used
    seen = []
    for _ in range(2):
        assert board.run(program, fuel=whole // 2).how == "power_cut"
        seen.append(board.output)
    assert seen[0] == seen[1]
    assert 10 < len(seen[0].splitlines()) < 1000


def test_a_program_that_does_not_end_is_an_error_that_shows_its_output(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"still running(?s:.*)so far"):
        WasiBoard(tmp_path).run("print('so far')\nwhile True: pass", timeout_s=1.0)


def test_what_is_waited_for_and_never_printed_is_an_error(tmp_path: Path) -> None:
    with (
        WasiBoard(tmp_path).start("print('something else')") as life,
        pytest.raises(BoardError, match="something else"),
    ):
        life.wait_for("ready")


UDP = """
import select, socket
far = ("127.0.0.1", {port})
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.setblocking(False)
here.connect(socket.getaddrinfo(*far)[0][-1])
print(here.readinto(bytearray(8)))
here.write(b"question and more", 8)
poll = select.poll()
poll.register(here, select.POLLIN)
buffer = bytearray(8)
for _ in poll.ipoll(5000):
    print(here.readinto(buffer), bytes(buffer))
"""


def test_its_sockets_are_datagrams_of_this_machine_and_streams_once_connected(
    tmp_path: Path,
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        far.bind(("127.0.0.1", 0))
        far.settimeout(10.0)
        with WasiBoard(tmp_path).start(UDP.format(port=far.getsockname()[1])) as life:
            asked, board = far.recvfrom(64)
            assert asked == b"question"
            far.sendto(b"answer", board)
            assert life.wait().code == 0
            assert life.output == "None\n6 b'answer\\x00\\x00'\n"


def test_the_ninth_socket_is_too_many(tmp_path: Path) -> None:
    program = """
import errno, socket
opened = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(8)]
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
except OSError as error:
    print(error.errno == errno.ENOMEM)
"""
    assert run(WasiBoard(tmp_path), program) == "True"


UART = """
from machine import UART
import select
line = UART(0, 115200)
poll = select.poll()
poll.register(line, select.POLLIN)
found = b""
while not found.endswith(b"!"):
    for _ in poll.ipoll(5000):
        found += line.read()
line.write(b"!" + found)
"""


def test_its_uart_is_a_terminal_of_this_machine(tmp_path: Path) -> None:
    near, far = pty.openpty()
    tty.setraw(far)
    try:
        with WasiBoard(tmp_path, uarts=(os.ttyname(far),)).start(UART) as life:
            os.write(near, bytes(range(32)) + b"!")
            assert life.wait().code == 0, life.output
            assert os.read(near, 64) == b"!" + bytes(range(32)) + b"!"
    finally:
        os.close(near)
        os.close(far)


def test_a_uart_that_is_not_wired_is_an_error(tmp_path: Path) -> None:
    program = "from machine import UART\ntry:\n    UART(1)\nexcept OSError:\n    print('none')"
    assert run(WasiBoard(tmp_path), program) == "none"
