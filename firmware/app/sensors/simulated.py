"""A sensor that is none: a value that walks by dice, to try a node without parts.

{"kind": "simulated", "name": "temperature", "unit": "Cel", "value": 20.0, "step": 0.3}
"""

from random import getrandbits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..senml import Measured

_PLACES = 2


class Sensor:
    def __init__(self, spec: "dict[str, Any]", board: "Any") -> None:
        self._name = spec.get("name", "temperature")
        self._unit = spec.get("unit", "Cel")
        self._value = round(spec.get("value", 20.0) * 10**_PLACES)
        self._step = max(1, round(spec.get("step", 0.3) * 10**_PLACES))

    def start(self) -> int:
        return 0

    def read(self) -> "list[Measured]":
        self._value += getrandbits(16) % (2 * self._step + 1) - self._step
        return [(self._name, self._unit, self._value, _PLACES)]
