"""A micro:bit (first edition) in QEMU: real MicroPython 1.9.2, 16 KiB of RAM, a real UART, and the
sensor for boards of that size. Its readings wait in RAM, so a power cut takes those.
"""

from __future__ import annotations

from hil.boards.board import Board, BoardSpec, Can, Kind, Node, Place, Reset
from hil.boards.errors import BoardError
from hil.boards.firmware import TINY, tiny_command, tiny_files, tiny_hash
from hil.boards.microbit.board import FIRMWARE, MicrobitBoard, why_not
from hil.boards.raw_repl import RawRepl


class EmulatedMicrobit(Board):
    def __init__(self, spec: BoardSpec, place: Place) -> None:
        self._place = place
        self._script = place.folder / "script.bin"
        place.folder.mkdir(parents=True, exist_ok=True)
        self._board = MicrobitBoard(place.folder / "flash", FIRMWARE, self._script)
        self.device = self._board.device
        self._is_on = self._is_gone = False
        self._heap_text = ""

    def prepare(self, node: Node) -> None:
        made = tiny_files(self._place.shelf, self._place.folder / "tiny", node)
        self._script.write_bytes(made["script.bin"])
        self.firmware_hash = tiny_hash(self._place.shelf)

    def boot(self) -> None:
        self._board.start()
        self._is_on = True

    def reset(self, how: Reset) -> None:
        if how is Reset.SOFT:
            super().reset(how)
        self._board.reset()

    def power_cut(self, at: float | None = None) -> None:
        if not self._is_on:
            raise BoardError("it is off already")
        if at is not None:
            raise BoardError("its power can be cut now, and not at a share of a wake")
        self._board.cut_power()
        self._is_on = False

    def exec(self, code: str) -> str:
        with RawRepl(self.device) as repl:
            return repl.run(code)

    def kill(self) -> None:
        if not self._is_gone:
            self._board.close()
        self._is_gone, self._is_on = True, False

    def command(self, number: int) -> tuple[str, bytes]:
        return tiny_command(number)

    def logs(self) -> str:
        return self._board.output + self._heap_text

    def collect_output(self) -> str:
        """It prints nothing of its heap by itself: its console is its line."""
        if self._is_on:
            with RawRepl(self.device) as repl:
                self._heap_text += repl.heap()
        return super().collect_output()


KIND = Kind(
    name="qemu-microbit",
    title="micro:bit V1 in QEMU",
    transports=("serial",),
    firmwares=(TINY,),
    capabilities=frozenset({Can.SERIAL, Can.RESET, Can.POWER, Can.COMMANDS}),
    why_not=lambda spec: why_not(),
    make=EmulatedMicrobit,
)
