"""An operator who pauses the drain now and then, in one world of PAUSED_WORLDS.

With dice of its own, so that no other world is another one for it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.agenda import Agenda
from tests.simulation.plan import CALM_AT_S

PAUSED_WORLDS = 4
PAUSES_MAX = 5
PAUSE_S_MAX = 30.0


def fill_with_pauses(agenda: Agenda, seed: int, kind: str, pause: Callable[[bool], None]) -> None:
    """The last pause is over soon after the calm began: then all must drain. In worlds of other
    kinds than "any" one thing alone is hard.
    """
    if seed % PAUSED_WORLDS or kind != "any":
        return
    dice = Random(f"operator {seed}")
    for _ in range(dice.randint(1, PAUSES_MAX)):
        at = dice.uniform(0, CALM_AT_S)
        agenda.at(at, pause, True)
        agenda.at(at + dice.uniform(0.1, PAUSE_S_MAX), pause, False)
    agenda.at(CALM_AT_S + PAUSE_S_MAX, pause, False)
