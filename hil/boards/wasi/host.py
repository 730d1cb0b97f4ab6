"""Processes of this machine in which lives of boards are lived, one after another.

Starting one takes ten times as long as a short life in it. So one whose life has ended by itself is
kept for the next, of whatever board; one whose power is cut is killed, whatever it does just then.

Limits: IDLE_MAX wait for a life. LIVES_MAX in each, because wasmtime keeps a few open folders of an
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
LIVES_MAX = 100
READ_OCTETS_MAX = 65536
REPOSITORY = Path(__file__).resolve().parents[3]
_idle: list[Host] = []


class Host:
    def __init__(self) -> None:
        self.lives = 0
        self._begun = 0  # where in its output the life that it lives began
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115, closed by `end`
        self._told = b""  # of how it ended
        self._outcomes, told = os.pipe()
        os.set_blocking(self._outcomes, False)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hil.boards.wasi", str(told)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            pass_fds=[told],
            start_new_session=True,
        )
        os.close(told)

    def begin(self, asked: dict[str, object]) -> None:
        """A life."""
        assert self._process.stdin is not None
        self.lives += 1
        self._told = b""
        self._begun = os.fstat(self._output.fileno()).st_size
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()

    def outcome(self, timeout_s: float) -> str | None:
        """How the life ended, or nothing if the process did; None while it goes on."""
        deadline = time.monotonic() + timeout_s
        while not self._told.endswith(b"\n"):
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._outcomes], [], [], left)[0]:
                return None
            with suppress(BlockingIOError):  # another thread asked, too
                octets = os.read(self._outcomes, READ_OCTETS_MAX)
                if not octets:
                    return ""
                self._told += octets
        return self._told.decode()

    @property
    def output(self) -> str:
        """What the life printed so far."""
        octets = os.fstat(self._output.fileno()).st_size - self._begun
        return os.pread(self._output.fileno(), octets, self._begun).decode(errors="replace")

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


def taken() -> Host:
    """For one life."""
    while _idle:
        host = _idle.pop()
        if host.is_alive:
            return host
        host.end()
    return Host()


def given_back(host: Host) -> None:
    """Its life has ended."""
    if host.is_alive and host.lives < LIVES_MAX and len(_idle) < IDLE_MAX:
        _idle.append(host)
    else:
        host.end()


@atexit.register
def end_all() -> None:
    while _idle:
        _idle.pop().end()
