"""Runs `tidegate doctor` on one part, and gives what it has found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hil.rig.ports import free_udp_port
from tests.cli.tidegate import tidegate

QUIET = '[gateway]\nstate_dir = "state"\n[admin]\nlisten = ""\n[[udp]]\nlisten = "127.0.0.1:0"\n'


class Doctor:
    """Runs the verb on a configuration, with programs of this folder before those of the system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "c.toml"
        self.programs = folder / "programs"
        self.programs.mkdir()

    def program(self, name: str, script: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, part: str, text: str, *, code: int) -> list[dict[str, Any]]:
        self.config.write_text(text)
        environment = {"PATH": f"{self.programs}:{os.environ['PATH']}"}
        command = ("doctor", "--only", part, "--syncs", "10", "--config", self.config, "--json")
        done = tidegate(*command, folder=self.folder, environment=environment)
        assert done.returncode == code, done.stdout + done.stderr
        answer = json.loads(done.stdout)
        assert answer["ok"] is (code == 0)
        found: list[dict[str, Any]] = answer[part]["findings"]
        for finding in found:
            assert finding["level"] != "failure" or finding["command"], finding
        return found

    def commands(self, part: str, text: str, *, level: str = "failure") -> list[str]:
        """Of all findings of a level."""
        found = self.run(part, text, code=1 if level == "failure" else 0)
        return [finding["command"] for finding in found if finding["level"] == level]


@contextmanager
def taken_udp_port(*arguments: str) -> Iterator[tuple[int, int]]:
    """A port, and the process that has it: another program, called with these arguments."""
    port = free_udp_port()
    program = (
        "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
        f"s.bind(('127.0.0.1', {port})); print(flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None
        other.stdout.readline()
        yield port, other.pid
    finally:
        other.communicate()
