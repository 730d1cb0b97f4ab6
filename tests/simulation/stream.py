"""One TCP connection: octets in both directions, in order, cut anywhere, until it breaks.

What is under way at a break is lost, in each direction from a point of its own on. Each end learns
of the break in its own time; until then it writes into the void.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.agenda import Agenda

CUT_CHANCE = 0.2
NOTICE_S_MAX = 4.0


def nothing(*_: object) -> None:
    """What an end does about news before it is attached, or after it has let go."""


class Pipe:
    """One direction."""

    def __init__(self, agenda: Agenda, dice: Random, delay_s_max: float) -> None:
        self.deliver: Callable[[bytes], None] = nothing
        self._agenda = agenda
        self._dice = dice
        self._delay_s_max = delay_s_max
        self.last_at = 0.0  # when what was written last arrives
        self._open = True

    def write(self, octets: bytes) -> None:
        if not self._open:
            return
        start, dice = 0, self._dice
        while start < len(octets):
            end = len(octets)
            if dice.random() < CUT_CHANCE:
                end = dice.randint(start + 1, end)
            arrival = self._agenda.now + dice.random() * self._delay_s_max
            self.last_at = max(self.last_at, arrival)
            self._agenda.at(self.last_at, self._arrive, octets[start:end])
            start = end

    def stop(self) -> None:
        self._open = False

    def _arrive(self, octets: bytes) -> None:
        if self._open:
            self.deliver(octets)


class Connection:
    def __init__(self, agenda: Agenda, dice: Random, delay_s_max: float) -> None:
        self.to_broker = Pipe(agenda, dice, delay_s_max)
        self.to_gateway = Pipe(agenda, dice, delay_s_max)
        self.lost_at_broker: Callable[[Connection], None] = nothing
        self.lost_at_gateway: Callable[[Connection], None] = nothing
        self.is_open = True
        self._agenda = agenda
        self._dice = dice

    def sever(self, notice_s_max: float = NOTICE_S_MAX) -> None:
        """The connection is dead; what was under way is lost."""
        if not self.is_open:
            return
        self.is_open = False
        self.to_broker.stop()
        self.to_gateway.stop()
        dice = self._dice
        self._agenda.after(dice.random() * notice_s_max, self._notice_at_broker)
        self._agenda.after(dice.random() * notice_s_max, self._notice_at_gateway)

    def finish(self) -> None:
        """The broker closes it: what it has written arrives, and what is sent to it is lost."""
        self.to_broker.stop()
        self._agenda.at(self.to_gateway.last_at, self.sever, 0.0)

    def _notice_at_broker(self) -> None:
        self.lost_at_broker(self)

    def _notice_at_gateway(self) -> None:
        self.lost_at_gateway(self)
