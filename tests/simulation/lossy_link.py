"""Datagrams under way. One seeded dice decides every loss, copy and delay, and so the order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.simulation.agenda import Agenda

# Most datagrams are quick and a few take the whole lifetime: uniform to this power.
DELAY_POWER = 4


@dataclass(slots=True)
class Weather:
    """How bad the air is. No datagram is under way longer than `lifetime_s`."""

    loss: float
    copies: float
    lifetime_s: float


CALM = Weather(loss=0.0, copies=0.0, lifetime_s=0.05)


class LossyLink:
    def __init__(self, agenda: Agenda, dice: Random, weather: Weather) -> None:
        self._agenda = agenda
        self._dice = dice
        self.weather = weather

    def send(self, datagram: bytes, deliver: Callable[[bytes], None]) -> None:
        weather, dice = self.weather, self._dice
        for _ in range(2 if dice.random() < weather.copies else 1):
            if dice.random() >= weather.loss:
                delay_s = weather.lifetime_s * dice.random() ** DELAY_POWER
                self._agenda.after(delay_s, deliver, datagram)
