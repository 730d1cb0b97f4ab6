"""The power switch of a simulated board that wakes and sleeps by itself: a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from hil.boards.board import Wake
from hil.boards.errors import BoardError

REPOSITORY = Path(__file__).resolve().parents[3]
CUT_S_MAX = 20.0


class PoweredBoard:
    """Switched on until `cut` or `cut_in_wake`. Its output goes to the end of the file `log`."""

    def __init__(
        self, flash: Path, log: Path, *, heap: str, uarts: tuple[str, ...], pause_s: float
    ) -> None:
        self.wakes: list[Wake] = []
        request = {
            "flash": str(flash),
            "heap": heap,
            "uarts": list(uarts),
            "program": "import main",
            "pause_s": pause_s,
        }
        read_fd, write_fd = os.pipe()
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hil.boards.wasi.powered"],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=[write_fd],
                start_new_session=True,
            )
        os.close(write_fd)
        self._order({**request, "told": write_fd})
        self._reader = threading.Thread(target=self._read_wakes, args=(os.fdopen(read_fd, "rb"),))
        self._reader.start()

    @property
    def is_on(self) -> bool:
        return self._process.poll() is None

    def cut(self) -> None:
        if self.is_on:
            self._process.kill()
        self._ended()

    def cut_in_wake(self, share: float) -> None:
        """Of the work of the wake before. Returns when it is off."""
        self._order({"cut_at": share})
        try:
            self._process.wait(CUT_S_MAX)
        except subprocess.TimeoutExpired:
            self.cut()
            output_text = self._log.read_text(errors="replace")
            text = f"no wake within {CUT_S_MAX:.0f} s in which to cut the power:\n{output_text}"
            raise BoardError(text) from None
        self._ended()

    def soft_reset(self) -> None:
        self._process.send_signal(signal.SIGUSR1)

    def _order(self, order: dict[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def _read_wakes(self, reports: IO[bytes]) -> None:
        with reports:
            for line in reports:
                if line.endswith(b"\n"):
                    self.wakes.append(Wake(**json.loads(line)))

    def _ended(self) -> None:
        self._process.wait()
        self._reader.join()
        assert self._process.stdin is not None
        self._process.stdin.close()
