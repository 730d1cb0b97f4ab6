"""A sensor in CPython on aioudp in the place of a board, to see whose doing an outcome is."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from hil.boards.board import Board, BoardSpec, Can, Kind, Node, Place, Reset
from hil.boards.errors import BoardError

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAM = ("hil/boards/python/client.py", "hil/rig/scripted_client.py")


class PythonSensor(Board):
    def __init__(self, spec: BoardSpec, place: Place) -> None:
        self._folder = place.folder
        self._log = place.folder / "console.log"
        self._process: subprocess.Popen[bytes] | None = None
        place.folder.mkdir(parents=True, exist_ok=True)
        self._log.touch()

    def prepare(self, node: Node) -> None:
        settings = {
            "id": node.id,
            "topic": node.topic,
            "host": node.host,
            "port": node.port,
            "retry_ms": node.retry_ms,
            "pause_s": node.pause_s,
        }
        (self._folder / "settings.json").write_text(json.dumps(settings))
        program = b"".join((REPOSITORY / each).read_bytes() for each in PROGRAM)
        self.firmware_hash = hashlib.sha256(program).hexdigest()[:16]

    def boot(self) -> None:
        assert self._process is None, "it is on"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hil.boards.python.client", str(self._folder)],
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def reset(self, how: Reset) -> None:
        self.power_cut()
        self.boot()

    def power_cut(self, at: float | None = None) -> None:
        if self._process is None:
            raise BoardError("it is off already")
        if at is not None:
            raise BoardError("its power can be cut now, and not at a share of a wake")
        self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def command(self, number: int) -> tuple[str, bytes]:
        return "/set", b"hil %d" % number

    def logs(self) -> str:
        return self._log.read_text(errors="replace")


def _why_not(spec: BoardSpec) -> str | None:
    if importlib.util.find_spec("aioudp") is None:
        return "aioudp is not installed (make setup, and .venv/bin/python); it is GPL"
    return None


KIND = Kind(
    name="python",
    title="another client, CPython on aioudp",
    transports=("udp",),
    firmwares=("client",),
    capabilities=frozenset(
        {Can.UDP, Can.RESET, Can.POWER, Can.STORE, Can.TELLS_STORED, Can.COMMANDS}
    ),
    why_not=_why_not,
    make=PythonSensor,
)
