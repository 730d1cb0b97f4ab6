"""What a client is done with is found by its id, whatever ids it has and whatever went before."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from gateway.core.session.dedup import RECENT_MAX, RecentReadings

# In order, all over the place, few that come again, and such as look alike at first.
IDS: dict[str, Callable[[Random, int], int]] = {
    "counted": lambda dice, turn: turn % 65_535 + 1,
    "random": lambda dice, _: dice.randint(1, 65_535),
    "few": lambda dice, _: dice.randint(1, 20),
    "alike": lambda dice, _: 7 + 61 * dice.randint(0, 30),
}


class Model:
    """The same as a plain dictionary."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[int, float]] = {}

    def remember(self, message_id: int, contents: int, now: float, until: float) -> None:
        self.kept.pop(message_id, None)
        oldest = next(iter(self.kept), None)
        if oldest is not None and (len(self.kept) >= RECENT_MAX or self.kept[oldest][1] <= now):
            del self.kept[oldest]
        self.kept[message_id] = contents, until


def found(recents: RecentReadings, message_id: int) -> tuple[int, float] | None:
    one = recents.find(message_id)
    return None if one is None else (one.contents, one.until)


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("seed", range(5))
def test_found_is_what_a_dictionary_would_have(kind: str, seed: int) -> None:
    dice = Random(seed)
    recents, model, now = RecentReadings(), Model(), 0.0
    for turn in range(2000):
        now += dice.choice((0.0, 1.0, 30.0))
        message_id = IDS[kind](dice, turn)
        asked = dice.choice((message_id, message_id - 1, dice.randint(1, 100)))
        assert found(recents, asked) == model.kept.get(asked)
        recents.remember(message_id, turn, now, now + 90.0)
        model.remember(message_id, turn, now, now + 90.0)
        assert len(recents) == len(model.kept) <= RECENT_MAX
        if dice.random() < 0.02:
            left = recents.at(now)
            model.kept = {each: it for each, it in model.kept.items() if it[1] > now}
            assert left is not None
            recents = left


def test_nothing_is_left_of_what_is_outdated() -> None:
    recents = RecentReadings()
    recents.remember(1, 2, 0.0, 90.0)
    assert recents.at(89.9) is not None
    assert recents.at(90.0) is None
