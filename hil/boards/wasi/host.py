"""Host processes for simulated boards: one run of a board after another in each.

Starting one takes ten times as long as a short run in it. So one whose run has ended by itself is
kept for the next, of any board; one whose power is cut is killed, whatever it does just then.

Limits: IDLE_MAX wait for a run. RUNS_MAX in each, because wasmtime keeps a few open folders of an
interpreter that did not come to its end.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

IDLE_MAX = 2
RUNS_MAX = 100
READ_BYTES_MAX = 65536
REPOSITORY = Path(__file__).resolve().parents[3]
_idle: list[Host] = []


class Host:
    def __init__(self) -> None:
        self.runs = 0
        self._begun = 0  # where in its output the current run began
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115, closed by `end`
        self._report = b""  # how it ended
        self._outcomes, report_fd = os.pipe()
        os.set_blocking(self._outcomes, False)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hil.boards.wasi", str(report_fd)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            pass_fds=[report_fd],
            start_new_session=True,
        )
        os.close(report_fd)

    def begin(self, request: dict[str, object]) -> None:
        """A run."""
        assert self._process.stdin is not None
        self.runs += 1
        self._report = b""
        self._begun = os.fstat(self._output.fileno()).st_size
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()

    def outcome(self, timeout_s: float) -> str | None:
        """How the run ended, or nothing if the process did; None while it goes on."""
        deadline = time.monotonic() + timeout_s
        while not self._report.endswith(b"\n"):
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._outcomes], [], [], left)[0]:
                return None
            with suppress(BlockingIOError):  # another thread has read it
                chunk = os.read(self._outcomes, READ_BYTES_MAX)
                if not chunk:
                    return ""
                self._report += chunk
        return self._report.decode()

    @property
    def output(self) -> str:
        """What the run printed so far."""
        chunk = os.fstat(self._output.fileno()).st_size - self._begun
        return os.pread(self._output.fileno(), chunk, self._begun).decode(errors="replace")

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        assert self._process.stdin is not None
        self.kill()
        self._process.stdin.close()
        self._output.close()
        os.close(self._outcomes)


def take_host() -> Host:
    """For one run."""
    while _idle:
        host = _idle.pop()
        if host.is_alive:
            return host
        host.end()
    return Host()


def give_back_host(host: Host) -> None:
    """Its run has ended."""
    if host.is_alive and host.runs < RUNS_MAX and len(_idle) < IDLE_MAX:
        _idle.append(host)
    else:
        host.end()


@atexit.register
def end_all() -> None:
    while _idle:
        _idle.pop().end()
