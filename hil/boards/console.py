"""What a board's console prints, read into a file as long as it is open.

A port on USB goes away when its board sleeps deeply or loses its power, and comes back: it is
opened again and again.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import serial  # type: ignore[import-untyped]

AGAIN_S = 0.05
READ_OCTETS_MAX = 4096


class ConsoleLog:
    def __init__(self, port: str, baud: int, log: Path) -> None:
        self._port = port
        self._baud = baud
        self._log = log
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None
        log.touch()

    def open(self) -> None:
        if self._thread is None:
            self._ends.clear()
            self._thread = threading.Thread(target=self._read, name=f"console {self._port}")
            self._thread.start()

    def close(self) -> None:
        """The port is free then. Does nothing to one that is closed."""
        if self._thread is not None:
            self._ends.set()
            self._thread.join()
            self._thread = None

    def _read(self) -> None:
        while not self._ends.is_set():
            with (
                contextlib.suppress(OSError),  # and so is pyserial's
                serial.serial_for_url(self._port, self._baud, timeout=AGAIN_S) as port,
                self._log.open("ab", buffering=0) as log,
            ):
                while not self._ends.is_set():
                    log.write(port.read(max(1, min(port.in_waiting, READ_OCTETS_MAX))))
            self._ends.wait(AGAIN_S)
