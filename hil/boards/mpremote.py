"""A real board with MicroPython on it and its console on a serial port: an ESP32, an RP2040.

Files, snippets and the first start go by mpremote; how its button is pressed is the kind's to say,
and its power is switched by what bench.toml names (power.py). MicroPython is to be on it:
`tidegate flash install` does that, once.

Limits: all that is on the board but boot.py is removed. A board that sleeps deeply hears its
console only while it is awake; it is asked for AWAKE_S_MAX.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hil.boards import programs
from hil.boards.board import Board, BoardSpec, Can, Node, Place, Reset
from hil.boards.console import ConsoleLog
from hil.boards.errors import BoardError
from hil.boards.firmware import firmware_hash, node_command, node_files
from hil.boards.power import Switch
from hil.boards.raw_repl import RawRepl

COMMAND_S_MAX = 120.0
AWAKE_S_MAX = 60.0
PORT_S_MAX = 20.0
LOOK_S = 0.05
CAPABILITIES = frozenset(
    {
        Can.UDP,
        Can.SERIAL,
        Can.RESET,
        Can.SOFT_RESET,
        Can.POWER,
        Can.STORE,
        Can.TELLS_STORED,
        Can.COMMANDS,
    }
)
WIPE = """\
import os
def wipe(folder):
    for entry in os.ilistdir(folder):
        name = folder + '/' + entry[0]
        if entry[1] & 0x4000:
            wipe(name)
            os.rmdir(name)
        elif name != '/boot.py':
            os.remove(name)
wipe('')
"""


class MpremoteBoard(Board):
    def __init__(self, spec: BoardSpec, place: Place, button: Sequence[str] = ()) -> None:
        """`button`: program and arguments that press it; without it power is cut for a moment."""
        self._spec = spec
        self._place = place
        self.button = tuple(button)
        self._switch = Switch(spec)
        self._is_powered = True
        place.folder.mkdir(parents=True, exist_ok=True)
        self._console = ConsoleLog(spec.port, spec.baud, place.folder / "console.log")
        if spec.transport == "serial":
            self.device = spec.line

    def prepare(self, node: Node) -> None:
        spec = self._spec
        others: dict[str, object] = {"interval_s": spec.interval_s}
        if spec.transport == "serial":
            others["uart"] = {"number": spec.uart, "baud": spec.baud}
        else:
            others["gateways"] = [[node.host, node.port]]
        files = node_files(self._place.shelf, node, others)
        self.firmware_hash = firmware_hash(files)
        if spec.secrets:
            files["secrets.json"] = json.dumps(dict(spec.secrets)).encode()
        self._be_on()
        self.exec(WIPE)
        self.put(files)

    def boot(self) -> None:
        if self._is_powered:
            self._mpremote("reset")
        else:
            self._be_on()
        self._console.open()

    def power_cut(self, at: float | None = None) -> None:
        if at is not None:
            raise BoardError("its power can be cut now, and not at a share of a wake")
        self._console.close()
        self._switch.off()
        self._is_powered = False

    def reset(self, how: Reset) -> None:
        if how is Reset.SOFT:
            self._console.close()
            with RawRepl(self._spec.port, self._spec.baud, AWAKE_S_MAX) as repl:
                repl.soft_reset()
            self._console.open()
        elif self.button:
            self._console.close()
            programs.run(self.button[0], self.button[1:], COMMAND_S_MAX)
            self._console.open()
        else:
            self.power_cut()
            self.boot()

    def put(self, files: Mapping[str, bytes]) -> None:
        folder = self._place.folder / "files"
        for name, octets in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(octets)
        top = sorted({Path(name).parts[0] for name in files})
        # main.py last: half a program must not start.
        top.sort(key=lambda name: name == "main.py")
        self._stop_program()
        self._mpremote("cp", "-r", *(str(folder / name) for name in top), ":")

    def exec(self, code: str) -> str:
        self._stop_program()
        return self._mpremote("exec", code).replace("\r\n", "\n")

    def command(self, number: int) -> tuple[str, bytes]:
        return node_command(number)

    def logs(self) -> str:
        path = self._place.folder / "console.log"
        return path.read_text(errors="replace")

    def kill(self) -> None:
        """Without a switch it goes on; its program is stopped when the next run begins."""
        self._console.close()
        if self._switch.is_there and self._is_powered:
            self._switch.off()
            self._is_powered = False

    def _be_on(self) -> None:
        if not self._is_powered:
            self._switch.on()
            self._is_powered = True
        deadline = time.monotonic() + PORT_S_MAX
        while not Path(self._spec.port).exists():
            if time.monotonic() > deadline:
                raise BoardError(f"{self._spec.port} did not come within {PORT_S_MAX:.0f} s")
            time.sleep(LOOK_S)

    def _stop_program(self) -> None:
        self._console.close()
        with RawRepl(self._spec.port, self._spec.baud, AWAKE_S_MAX):
            pass  # it stays at its prompt, where mpremote does not have to wait for it

    def _mpremote(self, *arguments: str) -> str:
        self._console.close()
        connect = ("connect", self._spec.port)
        return programs.run("mpremote", (*connect, *arguments), COMMAND_S_MAX)
