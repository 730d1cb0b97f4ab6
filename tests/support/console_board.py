"""Real MicroPython 1.27 with its console on a serial port of this machine, as an ESP32 has it.

The port is one end of a cable of two pseudo-terminals. When its program resets it, it starts again.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import tty
from pathlib import Path
from types import TracebackType
from typing import Self

from hil.boards.errors import BoardError
from hil.boards.wasi.board import BoardRun, WasiBoard

LOOK_S = 0.02
RUN_S_MAX = 300.0


class ConsoleBoard:
    def __init__(self, flash: Path, heap: str = "128k") -> None:
        self._near, self.device = _end()
        self._far, far_device = _end()
        self.flash = flash
        self.lives = 0
        self.output = ""
        self._board = WasiBoard(flash, heap=heap, uarts=(far_device,))
        self._life: BoardRun | None = None
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._carry, self._live)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.set()
        self.cut_power()
        for thread in self._threads:
            thread.join()
        os.close(self._near)
        os.close(self._far)

    def cut_power(self) -> None:
        """It starts again at once."""
        if self._life is not None:
            self._life.cut_power()

    def _live(self) -> None:
        while not self._ends.is_set():
            self.lives += 1
            with self._board.start("import repl\nrepl.run()") as life:
                self._life = life
                with contextlib.suppress(BoardError):  # its power was cut
                    life.wait(RUN_S_MAX)
                self.output += life.output

    def _carry(self) -> None:
        while not self._ends.is_set():
            for here, there in ((self._near, self._far), (self._far, self._near)):
                with contextlib.suppress(OSError):  # nobody has that end open
                    if select.select([here], [], [], LOOK_S / 4)[0]:
                        os.write(there, os.read(here, 256))


def _end() -> tuple[int, str]:
    near, far = os.openpty()
    tty.setraw(far)
    name = os.ttyname(far)
    os.close(far)
    return near, name
