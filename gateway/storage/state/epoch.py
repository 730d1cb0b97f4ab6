"""The epoch that a new database begins with: one that no other of this gateway has had.

A database that was there counts on by one. A new one cannot know what was used before: its card was
replaced, its folder is empty at each boot (tmpfs, a read-only root), or the old one is damaged. The
clock does not tell it either, because without a battery and a network it says the same at each
boot, and consumers would take other readings for repeats. So the first epoch is drawn at random,
above the seconds since 1970, from half of what is left of 32 bits: with 1,000 boots the chance that
any two runs have the same is below one in a thousand.

Above the clock, because former versions began at the clock. Half, so that it can be drawn again and
again where something is known that it must be above.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable

# Of 32 bits in the journal's records, and one is to be added.
EPOCH_MAX = 0xFFFF_FFFE
CLOCK_MAX = EPOCH_MAX // 2  # a clock beyond 2038 is wrong, or would leave no room


def fresh_epoch(known: Iterable[int] = ()) -> int:
    """For `raise_epoch`, which adds one. `known`: epochs that this gateway has had."""
    least = max([0, min(int(time.time()), CLOCK_MAX), *known])
    return min(least, EPOCH_MAX - 1) + secrets.randbelow(max(1, (EPOCH_MAX - least) // 2))
