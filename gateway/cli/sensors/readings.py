"""What a simulated sensor measures: plausible random walks, all from one seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from gateway.cli.sensors.senml import Measurement


@dataclass(slots=True)
class Walk:
    """A random walk that is pulled back to its home, so that it stays plausible for hours."""

    name: str
    unit: str  # of the SenML units registry
    home: float
    pull: float  # share of the way home that one reading goes
    step: float  # standard deviation of what one reading adds
    decimals: int
    low: float
    high: float
    value: float

    def measure(self, dice: Random) -> Measurement:
        pulled = (self.home - self.value) * self.pull
        value = self.value + pulled + dice.gauss(0.0, self.step)
        self.value = min(max(value, self.low), self.high)
        return Measurement(self.name, self.unit, round(self.value, self.decimals))


def indoor_walks(dice: Random) -> tuple[Walk, ...]:
    """A room sensor with a lithium cell; each sensor has a climate of its own."""
    temperature, humidity = dice.uniform(17.0, 25.0), dice.uniform(35.0, 65.0)
    battery = dice.uniform(2.9, 3.2)
    return (
        Walk("temperature", "Cel", temperature, 0.02, 0.06, 2, -20.0, 60.0, temperature),
        Walk("humidity", "%RH", humidity, 0.02, 0.25, 1, 0.0, 100.0, humidity),
        Walk("battery", "V", battery - 0.4, 0.0005, 0.0005, 3, 2.0, 3.6, battery),
    )
