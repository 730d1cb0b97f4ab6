"""What is simulated. The names are those of the arguments of the verb."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Each needs a port of its own; Linux gives away 28,232 by default.
SENSORS_MAX = 25_000
SECONDS_MAX = 7 * 86_400
SLEEP_S_MAX = 0xFFFF  # as DISCONNECT can say
PAYLOAD_BYTES_MAX = 65_000


@dataclass(frozen=True, slots=True)
class Plan:
    """Times in seconds, `loss` and `copies` in percent; `payload` None: a SenML pack."""

    gateway: tuple[str, int] = ("127.0.0.1", 1883)
    sensors: int = 10
    seconds: float = 30.0
    interval: float = 5.0
    sleep: int = 0
    loss: float = 0.0
    copies: float = 0.0
    seed: int = 1
    payload: int | None = None
    qos: tuple[int, ...] = (0, 1, 2)
    name: str = "sim"
    keep_sessions: bool = False
    protect: Path | None = None  # a file of their keys
    scheme: str = "hmac-sha256"  # of what they send then

    def names(self) -> list[str]:
        """Of the sensors, in their order."""
        return [f"{self.name}-{number + 1}" for number in range(self.sensors)]
