"""Sensors by the names that they have in /settings.json. A driver is loaded when it is used."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    from ..senml import Measured

    class Sensor(Protocol):
        def start(self) -> int: ...
        def read(self) -> Sequence[Measured]: ...


KINDS = ("internal", "adc", "ds18b20", "bme280", "simulated")


def made(spec: "dict[str, Any]", board: "Any") -> "Sensor":
    """Raises ValueError and KeyError when the settings are wrong, OSError when nobody answers."""
    kind = spec["kind"]
    if kind == "internal":
        from .internal import Sensor
    elif kind == "adc":
        from .adc import Sensor
    elif kind == "ds18b20":
        from .ds18b20 import Sensor
    elif kind == "bme280":
        from .bme280 import Sensor
    elif kind == "simulated":
        from .simulated import Sensor
    else:
        raise ValueError(f"kind: one of {', '.join(KINDS)}")
    return Sensor(spec, board)
