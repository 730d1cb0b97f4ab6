"""A voltage at a pin: a battery behind a divider, a soil probe.

    {"kind": "adc", "pin": 34, "name": "battery", "times": 2}

`times` is what the divider divides by. The median of SAMPLES counts: a radio that begins to send
pulls the supply down for a moment.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..senml import Measured

SAMPLES = 9


class Sensor:
    def __init__(self, spec: "dict[str, Any]", board: "Any") -> None:
        self._name = spec.get("name", "voltage")
        self._times = spec.get("times", 1)
        self._microvolts = board.adc(spec["pin"])

    def start(self) -> int:
        return 0

    def read(self) -> "list[Measured]":
        samples = sorted(self._microvolts() for _ in range(SAMPLES))
        return [(self._name, "V", round(samples[SAMPLES // 2] * self._times / 1000), 3)]
