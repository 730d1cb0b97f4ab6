"""Readings whose write failed, which the disk may have all the same: the next run may find them.

Rule 1: such a reading keeps its sequence, for ever, or the next run would give two readings one
        delivery tag, and the one that drops repeats by it would drop a reading.
Rule 2: it is held, neither refused nor sent, and stored again, until the journal works: what the
        failed write has left is void from then on (journal/segment.py, Rule 1). Sent meanwhile, a
        QoS 2 reading would reach the broker once now and once in the next run; refused, its sensor
        would bring it as another one.
Rule 3: after `HELD_S` a disk that still fails may be gone for good. Then the reading goes the way
        of those that the journal cannot take, with its tag.

Full: beyond HELD_MAX as if the time was over.
"""

from __future__ import annotations

from math import inf

from gateway.core.state_records import ClientId
from gateway.core.values import Reading

HELD_S = 10.0  # less than a sensor's patience: some retries of 10 s and more
STORE_AGAIN_S = 1.5  # a journal that failed tries again after a second
HELD_MAX = 1000


class IndeterminateWrites:
    def __init__(self) -> None:
        self.store_at = inf  # those that are held, once more
        self._until: dict[Reading, float] = {}

    @property
    def is_any(self) -> bool:
        return bool(self._until)

    def __contains__(self, reading: Reading) -> bool:
        return reading in self._until

    def has_of(self, client_id: ClientId) -> bool:
        return any(reading.client_id == client_id for reading in self._until)

    def hold(self, reading: Reading, now: float) -> bool:
        """The journal has not taken it; False if it is to be waited for no longer."""
        until = self._until.get(reading)
        if until is None and len(self._until) < HELD_MAX:
            until = self._until[reading] = now + HELD_S
        if until is None or now >= until:
            return False
        self.store_at = min(self.store_at, now + STORE_AGAIN_S)
        return True

    def let_go(self, reading: Reading) -> None:
        """It is stored, and what is on the disk beside it void; or it goes on without that."""
        self._until.pop(reading, None)

    def due(self, now: float) -> list[Reading]:
        """Those to be stored again, in the order in which they were taken."""
        if now < self.store_at:
            return []
        self.store_at = inf
        return list(self._until)
