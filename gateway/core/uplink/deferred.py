"""Readings that were acknowledged, and that the broker will not have just now: they are offered
again after `OFFER_AGAIN_S`, and when the connection ends.

Limit: `POSTPONED_MAX` at a time; a further one is given up by the uplink, as the broker wishes.
"""

from __future__ import annotations

from collections import deque
from math import inf

from gateway.core.mqtt.inflight import InFlight
from gateway.core.values import Reading

POSTPONED_MAX = 1000
OFFER_AGAIN_S = 10.0


class Deferred:
    def __init__(self, in_flight: InFlight) -> None:
        self.offer_at = inf
        self._in_flight = in_flight
        self._readings: deque[Reading] = deque()

    def __len__(self) -> int:
        return len(self._readings)

    def take(self, reading: Reading, now: float) -> bool:
        """False if there are too many."""
        if len(self._readings) >= POSTPONED_MAX:
            return False
        self._readings.append(reading)
        self.offer_at = min(self.offer_at, now + OFFER_AGAIN_S)
        return True

    def offer(self) -> None:
        """All of them, in their order."""
        self.offer_at = inf
        while self._readings:
            self._in_flight.wait_again(self._readings.pop())
