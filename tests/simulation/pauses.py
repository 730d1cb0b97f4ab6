"""What is held back now and then: the drain, by an operator, in one world of PAUSED_WORLDS; what is
written to the broker, because it takes nothing, in as many others.

With dice of their own, so that no other world is another one for it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.agenda import Agenda
from tests.simulation.plan import CALM_AT_S

PAUSED_WORLDS = 4
CLOGGED_AT = 2  # of each of these
PAUSES_MAX = 5
PAUSE_S_MAX = 30.0

Pause = Callable[[bool], None]


def fill_with_pauses(agenda: Agenda, seed: int, kind: str, pause: Pause, clog: Pause) -> None:
    """The last pause is over soon after the calm began: then all must drain. In worlds of other
    kinds than "any" one thing alone is hard.
    """
    if kind != "any":
        return
    if seed % PAUSED_WORLDS == 0:
        _fill(agenda, Random(f"operator {seed}"), pause)
    elif seed % PAUSED_WORLDS == CLOGGED_AT:
        _fill(agenda, Random(f"clogged {seed}"), clog)


def _fill(agenda: Agenda, dice: Random, pause: Pause) -> None:
    for _ in range(dice.randint(1, PAUSES_MAX)):
        at = dice.uniform(0, CALM_AT_S)
        agenda.at(at, pause, True)
        agenda.at(at + dice.uniform(0.1, PAUSE_S_MAX), pause, False)
    agenda.at(CALM_AT_S + PAUSE_S_MAX, pause, False)
