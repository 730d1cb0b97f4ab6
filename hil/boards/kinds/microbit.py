"""A real micro:bit (first edition) on its USB, which is its console, its line and its power."""

from __future__ import annotations

from hil.boards.board import Board, BoardSpec, Can, Kind, Node, Place, Reset
from hil.boards.errors import BoardError
from hil.boards.firmware import TINY, tiny_command, tiny_files, tiny_hash
from hil.boards.power import Switch
from hil.boards.raw_repl import RawRepl

WIPE = "import os\nfor name in os.listdir(): os.remove(name)"


class Microbit(Board):
    is_line_console = True

    def __init__(self, spec: BoardSpec, place: Place) -> None:
        self._spec = spec
        self._place = place
        self._switch = Switch(spec)
        self.device = spec.port
        self._heap_text = ""

    def prepare(self, node: Node) -> None:
        made = tiny_files(self._place.shelf, self._place.folder / "tiny", node)
        self.firmware_hash = tiny_hash(self._place.shelf)
        with RawRepl(self._spec.port) as repl:
            repl.run(WIPE)
            repl.put({name: made[name] for name in ("tiny", "main.py")})

    def boot(self) -> None:
        with RawRepl(self._spec.port) as repl:
            repl.soft_reset()

    def power_cut(self, at: float | None = None) -> None:
        raise BoardError("the line of a micro:bit goes with its power; pull it by air.move")

    def reset(self, how: Reset) -> None:
        raise BoardError("nobody can press the button of a micro:bit from outside")

    def exec(self, code: str) -> str:
        with RawRepl(self._spec.port) as repl:
            return repl.run(code)

    def command(self, number: int) -> tuple[str, bytes]:
        return tiny_command(number)

    def collect_output(self) -> str:
        with RawRepl(self._spec.port) as repl:
            self._heap_text += repl.heap()
        return super().collect_output()

    def logs(self) -> str:
        return self._heap_text

    def kill(self) -> None:
        """It stays at its prompt."""


KIND = Kind(
    name="microbit",
    title="micro:bit V1",
    transports=("serial",),
    firmwares=(TINY,),
    capabilities=frozenset({Can.SERIAL, Can.COMMANDS}),
    why_not=lambda spec: None,
    make=Microbit,
    powers=("none",),
    is_real=True,
)
