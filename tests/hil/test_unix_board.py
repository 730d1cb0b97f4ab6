"""A board of MicroPython's Unix port: what it keeps, what wakes it, and power that goes while its
LittleFS is being written.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pty
import re
import socket
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.boards import inventory
from hil.boards.board import BoardSpec, Node, Place, Reset
from hil.boards.errors import BoardError
from hil.boards.firmware import node_files
from hil.boards.kinds import unix
from hil.boards.unix import flash
from hil.boards.unix.power import PoweredBoard
from hil.rig.campaign import Campaign, perform
from hil.rig.run import Outcome
from hil.scenarios import scenario
from tests.support.waiting import until

BENCH = inventory.DEFAULT.with_name("unix.toml")
BOARDS = inventory.read(BENCH)
SCENARIOS = {one.name: one for one in scenario.scenarios_in(scenario.FOLDER)}
PATIENCE_S = 200.0
POLL_S = 0.005
NODE = Node("hil-unix", "sensors/hil-unix", "127.0.0.1", 1)


@pytest.fixture(autouse=True)
def _needs_micropython() -> None:
    reason = BOARDS[0].why_not
    if reason is not None:
        pytest.skip(f"not run, no board of MicroPython's Unix port: {reason}")


class Bench:
    def __init__(self, folder: Path) -> None:
        self.supply = folder / "supply"
        self.log = folder / "console.log"
        self.log.touch()
        self._powers: list[PoweredBoard] = []

    def start(self, main: str = "", *, uart: str = "", pause_s: float = 0.01) -> PoweredBoard:
        if main:
            flash.make(self.supply, {"main.py": main.encode()})
        power = PoweredBoard(self.supply, self.log, heap="128k", uart=uart, pause_s=pause_s)
        self._powers.append(power)
        return power

    def wait_for_a_wake(self, power: PoweredBoard) -> None:
        """One that is over."""
        until(lambda: bool(power.wakes), PATIENCE_S)

    def wait_for(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + PATIENCE_S
        while (found := re.search(pattern, self.log.read_text(), re.DOTALL)) is None:
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(POLL_S)
        return found

    def wait_until_said(self, word: str, times: int) -> None:
        until(lambda: self.log.read_text().count(word) == times, PATIENCE_S)

    def close(self) -> None:
        for power in self._powers:
            power.cut()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    opened = Bench(tmp_path)
    yield opened
    opened.close()


SLEEPER = """
import machine
memory = machine.RTC()
print("woke", machine.reset_cause(), memory.memory())
memory.memory(memory.memory() + b"x")
machine.{end}
"""


def test_a_power_switch_that_fails_says_so(bench: Bench) -> None:
    flash.make(bench.supply, {"main.py": b""})
    (bench.supply / "cause").mkdir()
    power = bench.start()
    until(lambda: not power.is_on, PATIENCE_S)
    with pytest.raises(BoardError, match=r"its power switch failed: .*cause"):
        power.cut()


def test_it_wakes_from_deep_sleep_with_what_it_kept(bench: Bench) -> None:
    power = bench.start(SLEEPER.format(end="deepsleep(60_000)"))
    bench.wait_for(r"woke 1 b''.*woke 4 b'x'.*woke 4 b'xx'")
    power.cut()
    assert not power.is_on
    assert [wake.how for wake in power.wakes[:2]] == ["deepsleep", "deepsleep"]
    assert all(wake.began_at < wake.ended_at for wake in power.wakes)


KEEPER = """
import machine
memory = machine.RTC()
print("kept", len(memory.memory()))
memory.memory(b"x" * 100)
print("keeps")
while True:
    memory.memory(b"x" * 100)
"""


def test_what_a_sleep_keeps_is_whole_whenever_a_reset_comes(bench: Bench) -> None:
    power = bench.start(KEEPER)
    for lives in range(1, 51):
        bench.wait_until_said("keeps", lives)
        power.soft_reset()
    bench.wait_until_said("keeps", 51)
    kept = re.findall(r"kept (\d+)", bench.log.read_text())
    assert kept == ["0"] + ["100"] * 50


def test_a_power_cut_takes_what_only_a_sleep_keeps(bench: Bench) -> None:
    bench.start(SLEEPER.format(end="deepsleep(60_000)"), pause_s=60.0)
    bench.wait_for("woke 1 b''")
    bench.close()
    bench.start(pause_s=60.0)
    assert bench.wait_for(r"woke 1 b''.*woke (\d) (b'.*?')").groups() == ("1", "b''")


def test_a_reset_of_its_own_keeps_its_memory(bench: Bench) -> None:
    bench.start(SLEEPER.format(end="reset()"))
    bench.wait_for(r"woke 1 b''.*woke 2 b'x'")


def test_a_soft_reset_ends_its_sleep_and_keeps_its_memory(bench: Bench) -> None:
    power = bench.start(SLEEPER.format(end="deepsleep(60_000)"), pause_s=60.0)
    bench.wait_for_a_wake(power)
    power.soft_reset()
    bench.wait_for("woke 5 b'x'")


def test_a_soft_reset_ends_what_it_is_doing(bench: Bench) -> None:
    power = bench.start(SLEEPER.format(end="reset_cause()\nprint('busy')\nwhile True: pass"))
    bench.wait_for("woke 1.*busy")
    power.soft_reset()
    bench.wait_for("woke 5 b'x'")


def test_its_watchdog_bites_a_program_that_hangs(bench: Bench) -> None:
    power = bench.start(SLEEPER.format(end="WDT(timeout=200)\nwhile True: pass"))
    bench.wait_for("woke 3 b'x'")
    assert power.wakes[0].how == "watchdog"


def test_a_watchdog_that_is_fed_does_not_bite(bench: Bench) -> None:
    fed = "dog = machine.WDT(timeout=300)\nfor _ in range(60):\n    dog.feed()\n    sleep_ms(20)\n"
    power = bench.start("import machine\nfrom time import sleep_ms\n" + fed + "print('alive')")
    bench.wait_for("alive")
    assert power.wait(PATIENCE_S)
    assert [wake.how for wake in power.wakes] == ["exit"]


def test_too_much_for_the_rtc_memory_is_an_error_as_on_a_board(bench: Bench) -> None:
    tried = "import machine\ntry:\n    machine.RTC().memory(bytes(2049))\nexcept OSError:\n"
    bench.start(tried + "    print('too much')")
    bench.wait_for("too much")


def test_a_program_that_raises_ends_and_says_where(bench: Bench) -> None:
    power = bench.start("def measure():\n    return 1 // 0\nmeasure()\n")
    bench.wait_for('File "main.py", line 2, in measure')
    assert power.wait(PATIENCE_S)
    assert [wake.how for wake in power.wakes] == ["exit"]


def test_it_talks_on_a_serial_line(bench: Bench) -> None:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    program = """
import machine, select
line = machine.UART(0, 9600)
assert line.readinto(bytearray(8)) is None
waiting = select.poll()
waiting.register(line, select.POLLIN)
print("polled", len(waiting.poll(10)))
heard = b""
while len(heard) < 4:
    waiting.poll()
    heard += line.read(8) or b""
print("heard", line.write(heard + b"!", 3))
"""
    bench.start(program, uart=os.ttyname(theirs))
    bench.wait_for("polled 0")
    os.write(ours, b"\x00\x11\x03\xff")
    bench.wait_for("heard 3")
    assert os.read(ours, 16) == b"\x00\x11\x03"
    os.close(ours)
    os.close(theirs)


def test_it_talks_by_sockets_of_its_own(bench: Bench) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.1", 0))
        peer.settimeout(PATIENCE_S)
        port = peer.getsockname()[1]
        program = f"""
from a.mqttsn import Udp
udp = Udp(("127.0.0.1", {port}))
udp.send(bytearray(b"hello "), 5)
buffer = bytearray(16)
size = 0
while not size:
    size = udp.receive(buffer, 1000)
print("heard", buffer[:size])
"""
        files = node_files(bench.supply.parent / "shelf", NODE, {})
        flash.make(bench.supply, {**files, "main.py": program.encode()})
        bench.start()
        said, address = peer.recvfrom(64)
        assert said == b"hello"
        peer.sendto(b"world", address)
        bench.wait_for(r"heard bytearray\(b'world'\)")


# It stores until the power goes, and first of all says what it finds.
STORING = """
import sys
from a.app.store import Store
from loader.files import Files
import machine

store = Store(Files(), "/store")
found = []
while True:
    oldest = store.oldest()
    if oldest is None:
        break
    sequence, reading = oldest
    found.append(sequence if reading == str(sequence * 7919).encode() * 9 else -1)
    store.sent(sequence)
print("found", found)
for _ in range(6):
    sequence = store.append(str(store.next * 7919).encode() * 9)
    print("stored", sequence)
machine.deepsleep(60_000)
"""


def test_its_littlefs_keeps_what_was_stored_wherever_the_power_goes(bench: Bench) -> None:
    """At each write and erasure of a wake, in its middle, and at those of the wake behind it."""
    files = node_files(bench.supply.parent / "shelf", NODE, {})
    flash.make(bench.supply, {**files, "main.py": STORING.encode()})
    for _ in range(2):  # the second finds what the first stored, as each behind it
        whole = bench.start(pause_s=60.0)
        bench.wait_for_a_wake(whole)
        whole.cut()
    writes = int((bench.supply / "writes").read_text())
    assert writes > 10
    for write in range(1, writes + 1):
        power = bench.start(pause_s=0.0)
        bench.wait_for_a_wake(power)
        power.cut_in_wake(write / writes)
    power = bench.start(pause_s=60.0)
    bench.wait_for_a_wake(power)
    told = bench.log.read_text()
    assert "Traceback" not in told
    stored: set[int] = set()
    seen: set[int] = set()
    for line in told.splitlines():
        if line.startswith("stored"):
            stored.add(int(line.split()[1]))
        else:
            found = [int(number) for number in re.findall(r"-?\d+", line)]
            assert found == sorted(found)
            assert -1 not in found
            seen |= set(found)
            assert stored <= seen, line  # each life finds what those before it had stored
    assert len(stored) > 6 * writes


def test_a_board_takes_files_and_runs_snippets_while_it_is_off(tmp_path: Path) -> None:
    spec = BoardSpec("unix", "unix", "udp", "node", heap="128k")
    board = unix.KIND.make(spec, Place(tmp_path / "board", "", tmp_path / "shelf"))
    board.prepare(NODE)
    board.put({"lib/told.py": b"WORD = 'tide'\n"})
    assert board.exec("import told\nprint(told.WORD)") == "tide\n"
    with pytest.raises(BoardError, match="ZeroDivisionError"):
        board.exec("1 // 0")
    with pytest.raises(BoardError, match="off already"):
        board.power_cut()
    board.boot()
    with pytest.raises(BoardError, match="it is on"):
        board.put({"x": b""})
    board.reset(Reset.HARD)
    board.kill()
    board.kill()


def test_scenarios_hold_on_both_its_links(tmp_path: Path) -> None:
    chosen = [
        dataclasses.replace(SCENARIOS[name], readings=6)
        for name in ("soft_reset", "power_cut_exact")
    ]
    given = Campaign(BOARDS, chosen, seed=1, folder=tmp_path / "runs")
    results = asyncio.run(perform(given))
    assert [(result.board, result.failures) for result in results if result.failures] == []
    assert [result.outcome for result in results] == [Outcome.PASSED] * 4
