"""The temperature of the chip itself, which is a little warmer than the room when it sleeps much.

{"kind": "internal", "name": "chip"}
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..senml import Measured


class Sensor:
    def __init__(self, spec: "dict[str, Any]", board: "Any") -> None:
        self._name = spec.get("name", "chip")
        self._board = board

    def start(self) -> int:
        return 0

    def read(self) -> "list[Measured]":
        return [(self._name, "Cel", self._board.chip_temperature(), 1)]
