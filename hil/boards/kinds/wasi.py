"""Real MicroPython 1.27 in WebAssembly with the whole application of a node; deep sleep, RTC memory
and flash as ESP32 has them. On UDP, or on a serial line.
"""

from __future__ import annotations

from collections.abc import Mapping

from hil.boards.board import BoardSpec, Kind, Place
from hil.boards.errors import BoardError
from hil.boards.firmware import NODE
from hil.boards.programs import missing
from hil.boards.simulated import CAPABILITIES, SimulatedNode
from hil.boards.wasi.board import WasiBoard, why_not
from hil.boards.wasi.power import PoweredBoard


class WasiNode(SimulatedNode):
    def __init__(self, spec: BoardSpec, place: Place) -> None:
        super().__init__(spec, place)
        self._flash = place.folder / "flash"
        self._uarts = (place.uart,) if spec.transport == "serial" else ()

    def put(self, files: Mapping[str, bytes]) -> None:
        board = WasiBoard(self._flash)
        for name, octets in files.items():
            board.put(name, octets)

    def exec(self, code: str) -> str:
        """A run of its own, so it is to be off."""
        self._must_be_off()
        board = WasiBoard(self._flash, heap=self._spec.heap, uarts=self._uarts)
        outcome = board.run(code)
        if outcome.code:
            raise BoardError(board.output)
        return board.output

    def _fill(self, files: Mapping[str, bytes]) -> None:
        self.put(files)

    def _switched_on(self) -> PoweredBoard:
        return PoweredBoard(
            self._flash,
            self._log,
            heap=self._spec.heap,
            uarts=self._uarts,
            pause_s=self._pause_s,
        )


def _why_not(spec: BoardSpec) -> str | None:
    return missing("mpy-cross") or why_not()


KIND = Kind(
    name="wasi",
    title="MicroPython 1.27 in WebAssembly",
    transports=("udp", "serial"),
    firmwares=(NODE,),
    capabilities=CAPABILITIES,
    why_not=_why_not,
    make=WasiNode,
)
