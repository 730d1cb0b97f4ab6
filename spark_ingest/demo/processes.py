"""A broker, gateways and a collector as processes of one folder, ended together.

Their logs are files of that folder. What does not start says the end of its own.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

START_S_MAX = 30.0
END_S_MAX = 10.0
POLL_S = 0.05
TAIL_LINES = 12
# Linux gives the ones above to any socket that asks for one, before our programs have theirs.
PORTS = range(20_000, 32_000)


class ChainError(Exception):
    """A part of the chain does not do its part, in words for the one who asked for it."""


def mosquitto() -> str | None:
    """Debian keeps it where an ordinary user's PATH does not look."""
    return shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def free_port(kind: socket.SocketKind) -> int:
    """Raises ChainError."""
    for port in random.sample(PORTS, 100):
        with socket.socket(socket.AF_INET, kind) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise ChainError(f"no port of 127.0.0.1 is free between {PORTS[0]} and {PORTS[-1]}")


def wait_until(happened: Callable[[], bool], what: str, seconds: float = START_S_MAX) -> None:
    """Raises ChainError."""
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            raise ChainError(f"{what}: not within {seconds:.0f} s")
        time.sleep(POLL_S)


class Part:
    """One process, which may be killed and started again."""

    def __init__(self, folder: Path, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._command = list(command)
        self._log = folder / f"{name}.log"
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._running = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_for(self, words: str, times: int = 1) -> None:
        def is_there() -> bool:
            if self._running is None or self._running.poll() is not None:
                raise ChainError(f"{self.name} has ended:\n{self._tail()}")
            return self._log.read_text(errors="replace").count(words) >= times

        wait_until(is_there, f"{self.name} says {words!r}")

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        running, self._running = self._running, None
        if running is None or running.poll() is not None:
            return
        running.send_signal(how)
        try:
            running.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:])


class Gateway(Part):
    def __init__(self, folder: Path, name: str, broker_port: int, journal: str = "") -> None:
        self.port, self.admin = free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_STREAM)
        config = folder / f"{name}.toml"
        config.write_text(
            f'[gateway]\nname = "{name}"\nstate_dir = "{folder / name}"\n'
            f'[[udp]]\nlisten = "127.0.0.1:{self.port}"\n'
            f'[upstream]\nurl = "mqtt://127.0.0.1:{broker_port}"\nreconnect_delay_s_max = 1\n'
            f'[admin]\nlisten = "127.0.0.1:{self.admin}"\n[journal]\n{journal}',
            encoding="utf-8",
        )
        super().__init__(
            folder, name, [sys.executable, "-m", "gateway", "run", "--config", str(config)]
        )

    def status(self) -> dict[str, Any]:
        """Nothing while it does not answer."""
        try:
            with urlopen(f"http://127.0.0.1:{self.admin}/api/status", timeout=2) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (URLError, OSError, ValueError):
            return {}


class Chain:
    """As a context manager: all parts are ended, whatever happens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._parts: list[Part] = []

    def add(self, part: Part) -> None:
        self._parts.append(part)
        part.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for part in reversed(self._parts):
            part.stop()
