"""The power switch of such a board: from its boot on it wakes and sleeps, each wake a process of
MicroPython, until it is switched off, or its program ends.

A sleep is as long as the board wishes, but not longer than `pause_s`.
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from pathlib import Path

from hil.boards.board import Wake
from hil.boards.errors import BoardError
from hil.boards.reset_causes import CAUSES, POWER_ON, SOFT_RESET
from hil.boards.unix.interpreter import MODULES, path

CUT_S_MAX = 20.0


class PoweredBoard:
    """Switched on until `cut` or `cut_in_wake`. Its output goes to the end of the file `log`."""

    def __init__(
        self,
        supply: Path,
        log: Path,
        *,
        heap: str,
        uart: str = "",
        pause_s: float,
        program: str = "import main",
    ) -> None:
        self.wakes: list[Wake] = []
        self.code = 0  # with which the last run ended
        self._supply = supply
        self._log = log
        self._command = [path(), "-X", f"heapsize={heap}", str(MODULES / "boot.py")]
        self._command += [str(supply), uart, program]
        self._pause_s = pause_s
        self._lock = threading.Lock()  # of requests to a run, and of its process
        self._process: subprocess.Popen[bytes] | None = None
        self._is_cut = self._is_reset = False
        self._cuts_at = 0.0
        self._roused = threading.Event()
        (supply / "rtc").unlink(missing_ok=True)
        (supply / "writes").unlink(missing_ok=True)
        self._fault: Exception | None = None  # why no run could begin or be read
        self._living = threading.Thread(target=self._run)
        self._living.start()

    @property
    def is_on(self) -> bool:
        return self._living.is_alive()

    def cut(self) -> None:
        """Does nothing to one that is off. Raises BoardError if it went off by a fault of ours."""
        with self._lock:
            self._is_cut = True
            if self._process is not None:
                self._process.kill()
        self._roused.set()
        self._living.join()
        self._raise_fault()

    def cut_in_wake(self, share: float) -> None:
        """Of what the wake before wrote to the flash. Returns when it is off."""
        self._cuts_at = share
        self._living.join(CUT_S_MAX)
        if self._living.is_alive():
            self.cut()
            output_text = self._log.read_text(errors="replace")
            text = f"no wake within {CUT_S_MAX:.0f} s in which to cut the power:\n{output_text}"
            raise BoardError(text)
        self._raise_fault()

    def soft_reset(self) -> None:
        """Whatever it does, or in its sleep."""
        with self._lock:
            self._is_reset = True
            if self._process is not None:
                self._process.kill()
        self._roused.set()

    def wait(self, timeout_s: float) -> bool:
        """Whether it is off, by itself, in time."""
        self._living.join(timeout_s)
        return not self._living.is_alive()

    def _raise_fault(self) -> None:
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise BoardError(f"its power switch failed: {fault}") from fault

    def _run(self) -> None:
        try:
            self._run_on()
        except (OSError, ValueError) as error:
            self._fault = error

    def _run_on(self) -> None:
        cause = POWER_ON
        while True:
            began_at = time.monotonic()
            how = self._run_wake(cause)
            if how is None:
                return
            report, _, sleep_ms = how.partition(" ")
            self.wakes.append(Wake(began_at, time.monotonic(), report))
            if report not in CAUSES:
                return
            cause = CAUSES[report]
            if report == "deepsleep":
                self._roused.wait(min(int(sleep_ms) / 1000, self._pause_s))
                cause = SOFT_RESET if self._is_reset else cause

    def _run_wake(self, cause: int) -> str | None:
        """How it ended: `deepsleep MS`, another word of `CAUSES`, `exit`, `power_cut`. None: it
        was off before it began.
        """
        ended = self._supply / "ended"
        ended.unlink(missing_ok=True)
        (self._supply / "cause").write_text(str(cause))
        with self._lock, self._log.open("ab") as log:
            if self._is_cut:
                return None
            self._roused.clear()
            self._is_reset = False
            (self._supply / "cut_at").write_text(str(self._write_to_cut_at()))
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )
        code = self.code = self._process.wait()
        with self._lock:
            self._process = None
            if self._is_cut:
                return "power_cut"
            if self._is_reset:
                return "soft_reset"
        if ended.exists():
            return ended.read_text()
        return {-signal.SIGALRM: "watchdog", -signal.SIGKILL: "power_cut"}.get(code, "exit")

    def _write_to_cut_at(self) -> int:
        """0 for none."""
        try:
            before = int((self._supply / "writes").read_text())
        except OSError:
            return 0
        return max(1, round(self._cuts_at * before)) if self._cuts_at else 0
