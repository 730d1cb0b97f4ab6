"""Readings that wait for a QoS 2 reading of their own client and topic to complete.

A broker passes a QoS 2 message on when it is released, two round trips after PUBLISH; a QoS 1
message published meanwhile would reach subscribers first. So a QoS 1 reading goes aside while a
QoS 2 reading of its client and topic is on the wire, and everything of that client and topic goes
behind it. Others pass, so that the wire stays full.

Limit: ASIDE_MAX readings in all; when they are there, what would come aside stays in its queue, and
the others with it.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from gateway.core.state_records import ClientId
from gateway.core.values import Reading

ASIDE_MAX = 1000

_Key = tuple[ClientId, str]


class QosOrder:
    def __init__(self) -> None:
        self.completing: dict[_Key, int] = {}  # QoS 2 readings on the wire
        self.aside: dict[_Key, deque[Reading]] = {}
        self._free: dict[_Key, None] = {}  # of these, those that wait for nothing any more
        self.count = 0

    @property
    def is_busy(self) -> bool:
        """Whether any reading may have to wait."""
        return bool(self.completing or self.aside)

    @property
    def has_room(self) -> bool:
        return self.count < ASIDE_MAX

    # On the wire

    def begin(self, reading: Reading) -> None:
        """A QoS 2 reading goes onto the wire."""
        # Of any type, the pair is an object; compiled, a pair of two types is made one at each use.
        key: Any = (reading.client_id, reading.topic)
        completing = self.completing
        completing[key] = completing.get(key, 0) + 1

    def end(self, reading: Reading) -> None:
        """It has left the wire."""
        key: Any = (reading.client_id, reading.topic)
        completing = self.completing
        left = completing[key] - 1
        if left:
            completing[key] = left
            return
        del completing[key]
        if self.aside and key in self.aside:
            self._free[key] = None

    # Aside

    def must_wait(self, reading: Reading) -> bool:
        """Whether the reading would overtake one of its client on its topic."""
        key = reading.client_id, reading.topic
        return key in self.aside or (reading.qos == 1 and key in self.completing)

    def set_aside(self, reading: Reading) -> None:
        key = reading.client_id, reading.topic
        self.aside.setdefault(key, deque()).append(reading)
        self.count += 1

    def next_free(self) -> Reading | None:
        """One that may go on; it stays here until it is taken."""
        while self._free:
            key = next(iter(self._free))
            reading = self.aside[key][0]
            if reading.qos != 1 or key not in self.completing:
                return reading
            del self._free[key]
        return None

    def first_free(self) -> Reading | None:
        """As `next_free`, without a change."""
        heads = (self.aside[key][0] for key in self._free)
        return next(
            (one for one in heads if one.qos != 1 or _key(one) not in self.completing), None
        )

    def take(self, reading: Reading) -> None:
        """What `next_free` showed goes on."""
        key = reading.client_id, reading.topic
        queue = self.aside[key]
        queue.popleft()
        self.count -= 1
        if not queue:
            del self.aside[key], self._free[key]

    def all(self) -> list[Reading]:
        """In order for each client and topic."""
        return [reading for queue in self.aside.values() for reading in queue]

    def clear(self) -> None:
        """Those that were aside are elsewhere."""
        self.aside.clear()
        self._free.clear()
        self.count = 0


def _key(reading: Reading) -> _Key:
    return reading.client_id, reading.topic
