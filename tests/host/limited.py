"""The gateway as a process with limits of its own: a sensor is served, or it ends with one line."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.cli.tidegate import environment_with

# A user that nobody is, for limits that root does not have.
FREE_USER = 54_321
CONNECT = bytes.fromhex("08 04 04 01 003c") + b"s1"
PUBLISH = bytes.fromhex("0a 0c 22 6162 0007") + b"xyz"  # QoS 1, short topic name "ab"
PUBACK = 0x0D
END_S_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """`code`: None while it serves. `reached`: somebody connected to the broker's port."""

    code: int | None
    is_served: bool
    reached: bool
    lines: list[str]

    @property
    def complaints(self) -> list[str]:
        return [line for line in self.lines if " INFO " not in line and " WARN " not in line]


def limit(number: int, soft: int, hard: int | None = None) -> Callable[[], None]:
    return lambda: resource.setrlimit(number, (soft, soft if hard is None else hard))


def become_nobody() -> None:
    os.setgid(FREE_USER)
    os.setuid(FREE_USER)


def served_under(folder: Path, *steps: Callable[[], None]) -> Outcome:
    """`steps` are done in the new process before it becomes the gateway."""
    folder.chmod(0o777)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sensor,
        socket.create_server(("127.0.0.1", 0)) as broker,
        (folder / "log").open("w+") as log,
    ):
        sensor.bind(("127.0.0.1", 0))
        port = _free_port()
        broker.setblocking(False)
        gateway = subprocess.Popen(
            _command(folder, port, broker.getsockname()[1]),
            stdin=subprocess.DEVNULL,
            stderr=log,
            cwd="/",
            env=environment_with({}),
            preexec_fn=lambda: [step() for step in steps] and None,
        )
        try:
            is_served = _serves(gateway, sensor, port)
            code, reached = gateway.poll(), _is_reached(broker)
        finally:
            gateway.terminate()
            gateway.wait(END_S_MAX)
        log.seek(0)
        return Outcome(code, is_served, reached, log.read().splitlines())


def _command(folder: Path, port: int, broker: int) -> list[str]:
    settings = {
        "gateway.state_dir": folder / "state",
        "udp.0.listen": f"127.0.0.1:{port}",
        "upstream.url": f"mqtt://127.0.0.1:{broker}",
        "admin.listen": "127.0.0.1:0",
        "journal.acknowledge": "journal",
    }
    pairs = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "gateway", "run", *pairs]


def _serves(gateway: subprocess.Popen[bytes], sensor: socket.socket, port: int) -> bool:
    """Whether a sensor is let in and its reading acknowledged before the gateway ends."""
    sensor.settimeout(0.1)
    sent, deadline = CONNECT, time.monotonic() + END_S_MAX
    while gateway.poll() is None and time.monotonic() < deadline:
        sensor.sendto(sent, ("127.0.0.1", port))
        try:
            answer = sensor.recv(100)
        except (TimeoutError, ConnectionRefusedError):
            continue
        if answer[1] == PUBACK:
            return answer[-1] == 0
        sent = PUBLISH
    return False


def _is_reached(broker: socket.socket) -> bool:
    try:
        broker.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
