"""A million datagrams: half noise, half messages with a few wrong octets. Under a minute on a desk.

A failure names its seed in the test's name, and the octets in its message.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.frames.fuzzing import frame_in, mutated_vector, noise
from tests.frames.golden import FRAME_TYPES

SEEDS = 20
DATAGRAMS = 1_000_000


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_million_datagrams_are_frames_or_malformed(seed: int) -> None:
    dice = Random(seed)
    seen: Counter[type] = Counter()
    for _ in range(DATAGRAMS // SEEDS // 2):
        seen[type(frame_in(noise(dice)))] += 1
        seen[type(frame_in(mutated_vector(dice)))] += 1
    assert seen.total() == DATAGRAMS // SEEDS
    # Inputs that are all refused at the first check would prove little.
    assert min(seen[kind] for kind in (*FRAME_TYPES, type(None))) > 50
