"""What the air between a simulated sensor and its gateway does to datagrams, from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(slots=True)
class Air:
    """Shares of the datagrams, in either direction, that are lost or arrive twice; 0 to 1."""

    dice: Random
    loss: float = 0.0
    copies: float = 0.0
    lost: int = 0
    copied: int = 0

    def arrivals(self) -> int:
        """How often the next datagram arrives: 0, 1 or 2 times."""
        if self.loss and self.dice.random() < self.loss:
            self.lost += 1
            return 0
        if self.copies and self.dice.random() < self.copies:
            self.copied += 1
            return 2
        return 1
