"""How long to wait before the next try, and which reason for it is worth a line in the log. Pure.

The wait is drawn between the shortest and a ceiling that doubles with every try: after a power cut
a hundred gateways must not come back in step. Only `reset` brings the ceiling down again: a
broker that accepts and then refuses would otherwise be tried at full speed for ever.
"""

from __future__ import annotations

import random

LOG_AGAIN_AFTER_S = 60.0
LOG_AGAIN_S_MAX = 600.0
REASONS_MAX = 16


class Backoff:
    """Capped exponential waits with jitter."""

    def __init__(self, delay_s_min: float, delay_s_max: float, dice: random.Random) -> None:
        self._delay_s_min = delay_s_min
        self._delay_s_max = max(delay_s_min, delay_s_max)
        self._dice = dice
        self._ceiling_s = delay_s_min

    def next_delay_s(self) -> float:
        self._ceiling_s = min(self._delay_s_max, self._ceiling_s * 2)
        return self._dice.uniform(self._delay_s_min, self._ceiling_s)

    def reset(self) -> None:
        self._ceiling_s = self._delay_s_min


class Reasons:
    """Reasons logged in this outage: each at once, then after 1, 2, 4 and 8 minutes, then every 10.

    Remembers REASONS_MAX; one more takes the place of the oldest.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, float]] = {}  # reason -> (again at, interval)

    def worth_a_line(self, reason: str, now: float) -> bool:
        again_at, interval_s = self._seen.get(reason, (now, LOG_AGAIN_AFTER_S))
        if now < again_at:
            return False
        if reason not in self._seen and len(self._seen) >= REASONS_MAX:
            del self._seen[next(iter(self._seen))]
        self._seen[reason] = (now + interval_s, min(interval_s * 2, LOG_AGAIN_S_MAX))
        return True

    def forget(self) -> None:
        self._seen.clear()
