"""Sensors by the names that they have in /settings.json. A driver is loaded when it is used."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    from ..senml import Measured

    class Sensor(Protocol):
        def start(self) -> int: ...
        def read(self) -> Sequence[Measured]: ...


KINDS = ("adc", "bme280", "ds18b20", "internal", "simulated")


def made(spec: "dict[str, Any]", board: "Any") -> "Sensor":
    """Raises ValueError and KeyError when the settings are wrong, OSError when nobody answers.

    A kind with a point in it is a module of the user's, as `drivers.rain` is /drivers/rain.py.
    """
    kind = spec["kind"]
    if kind in KINDS:
        kind = __name__.rpartition(".")[0] + "." + kind
    elif "." not in kind:
        raise ValueError("kind: one of " + ", ".join(KINDS))
    sensor: Sensor = __import__(kind, None, None, ("Sensor",)).Sensor(spec, board)
    return sensor
