"""A board of real MicroPython, for tests: its flash is a folder, each of its runs in a process.

    board = WasiBoard(folder, heap="32k")
    with board.start("import main") as run:
        run.wait_for("connected")
    outcome = board.run("import main")

What survives a deep sleep (RTC memory) and its trace (reset cause) are carried from run to run.
A sleep passes at once: a test that wants to wait does so itself.
"""

from __future__ import annotations

import importlib.util
import json
import re
import threading
import time
from pathlib import Path
from typing import Self

from hil.boards.errors import BoardError
from hil.boards.reset_causes import CAUSES, POWER_ON
from hil.boards.wasi.host import give_back_host, take_host
from hil.boards.wasi.outcome import FUEL_FULL, Outcome

RUN_S_MAX = 60.0
POLL_S = 0.005


def why_not() -> str | None:
    """Why there can be no such board on this machine; None when there can."""
    if importlib.util.find_spec("wasmtime") is None:
        return (
            "wasmtime is not installed (make setup, and .venv/bin/python); there is none for "
            "32-bit machines"
        )
    return None


class BoardRun:
    """From power on to whatever ends it. The end of the `with` cuts the power."""

    def __init__(self, board: WasiBoard, request: dict[str, object]) -> None:
        self._board = board
        self._outcome: Outcome | None = None  # of one that has ended by itself
        self._cutting = threading.Lock()  # else a host could be killed that has another run already
        self._is_over = False
        self._host = take_host()
        self._host.begin(request)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.cut_power()
        with self._cutting:
            self._is_over = True
        give_back_host(self._host)

    @property
    def output(self) -> str:
        """What it printed so far."""
        return self._host.output

    def wait_for(self, pattern: str, timeout_s: float = RUN_S_MAX) -> re.Match[str]:
        """The first match in what it prints."""
        deadline = time.monotonic() + timeout_s
        while True:
            has_ended = self._has_ended(0.0)  # read first: its last output counts
            found = re.search(pattern, self.output)
            if found is not None:
                return found
            if has_ended or time.monotonic() > deadline:
                raise BoardError(f"no {pattern!r} in what the board printed:\n{self.output}")
            time.sleep(POLL_S)

    def wait(self, timeout_s: float = RUN_S_MAX) -> Outcome:
        """Until it ends by itself; raises BoardError when it does not."""
        if not self._has_ended(timeout_s):
            self.cut_power()
            raise BoardError(f"still running after {timeout_s} s:\n{self.output}")
        if self._outcome is None:
            raise BoardError(f"the simulation itself failed:\n{self.output}")
        return self._outcome

    def cut_power(self) -> None:
        """Does nothing to one that has ended."""
        with self._cutting:
            if not self._is_over and not self._has_ended(0.0):
                self._host.kill()
                self._board.ended(Outcome("power_cut"))

    def _has_ended(self, timeout_s: float) -> bool:
        report = self._host.outcome(timeout_s)
        if report and self._outcome is None:
            fields = json.loads(report)
            rtc_memory = bytes.fromhex(fields["rtc_memory"])
            self._outcome = Outcome(**{**fields, "rtc_memory": rtc_memory})
            self._board.ended(self._outcome)
        return report is not None


class WasiBoard:
    def __init__(self, flash: Path, *, heap: str = "64k", uarts: tuple[str, ...] = ()) -> None:
        """`uarts`: devices of this machine, by number of the board's UART."""
        flash.mkdir(parents=True, exist_ok=True)
        self.flash = flash
        self.output = ""  # of the last `run`
        self._heap = heap
        self._uarts = uarts
        self._cause = POWER_ON
        self._rtc_memory = b""

    def put(self, name: str, content: str | bytes) -> None:
        """A file on its flash."""
        path = self.flash / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def start(self, program: str, *, fuel: int = FUEL_FULL) -> BoardRun:
        """Switch it on. `fuel` is the number of instructions until the power is cut."""
        request = {
            "flash": str(self.flash),
            "heap": self._heap,
            "uarts": list(self._uarts),
            "program": program,
            "cause": self._cause,
            "rtc_memory": self._rtc_memory.hex(),
            "fuel": fuel,
        }
        return BoardRun(self, request)

    def run(self, program: str, *, fuel: int = FUEL_FULL, timeout_s: float = RUN_S_MAX) -> Outcome:
        """One run to its end."""
        with self.start(program, fuel=fuel) as run:
            try:
                return run.wait(timeout_s)
            finally:
                self.output = run.output

    def ended(self, outcome: Outcome) -> None:
        self._cause = CAUSES.get(outcome.how, POWER_ON)
        self._rtc_memory = outcome.rtc_memory
