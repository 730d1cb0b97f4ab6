"""A program in a process of its own that may run several times; each run's log begins behind that
of the one before."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

START_TIMEOUT_S = 200.0
STOP_TIMEOUT_S = 200.0
POLL_INTERVAL_S = 0.01
LOG_TAIL_LINES = 10


class ProcessError(Exception):
    """The program did not do what was asked of it; the text holds its log."""


class LoggedProcess(ABC):
    """Inside the `with` it runs; the end of that kills it."""

    def __init__(self, log_path: Path) -> None:
        self.log_path = log_path
        self._log_begin = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        if error is not None and not isinstance(error, ProcessError):  # which has it already
            error.add_note(f"{self.log_path.name} ended with:\n{self.log_tail()}")

    @abstractmethod
    def start(self) -> None:
        """Launch it."""

    def launch(
        self,
        command: Sequence[str],
        *,
        folder: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        with self.log_path.open("ab") as log:
            self._log_begin = log.tell()
            try:
                self._process = subprocess.Popen(
                    command,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **(environment or {})},
                    # Ctrl-C is for the caller, which then stops it in order.
                    start_new_session=True,
                )
            except OSError as error:
                raise ProcessError(f"cannot start {command[0]}: {error}") from error

    @property
    def pid(self) -> int:
        if self._process is None or self.returncode is not None:
            raise ProcessError("it is not running")
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def log(self) -> str:
        """Of this run."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_begin)
            return log.read().decode("utf-8", errors="replace")

    @property
    def whole_log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def log_tail(self) -> str:
        return "\n".join(self.log.splitlines()[-LOG_TAIL_LINES:])

    def wait_for_log(self, pattern: str, timeout_s: float = START_TIMEOUT_S) -> re.Match[str]:
        """The first match in the log; raises ProcessError when there is none in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            has_ended = self.returncode is not None  # read first: its last output counts
            found = re.search(pattern, self.log)
            if found is not None:
                return found
            if has_ended:
                raise ProcessError(f"ended with {self.returncode}:\n{self.log}")
            if time.monotonic() > deadline:
                raise ProcessError(f"no {pattern!r} within {timeout_s} s in:\n{self.log}")
            time.sleep(POLL_INTERVAL_S)

    def wait_for_exit(self) -> int:
        assert self._process is not None
        return self._process.wait(STOP_TIMEOUT_S)

    def stop(self) -> int:
        """SIGTERM, as systemd does; returns the exit code."""
        self.ask_to_stop()
        return self.wait_for_exit()

    def ask_to_stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
