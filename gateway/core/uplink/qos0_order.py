"""Readings of each client that are being stored before they pass on, in order, and the QoS 0
readings that wait behind each of them.

Limit: `FOLLOWERS_MAX` behind one; a further one is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.core.state_records import ClientId
from gateway.core.values import Reading

FOLLOWERS_MAX = 32


class Qos0Order:
    def __init__(self) -> None:
        self.storing: dict[ClientId, list[Reading]] = {}  # the same dictionary for ever
        self.behind: dict[Reading, list[Reading]] = {}

    def begin(self, reading: Reading) -> None:
        """It is being stored."""
        before = self.storing.get(reading.client_id)
        if before is None:
            self.storing[reading.client_id] = [reading]
        else:
            before.append(reading)

    def end(self, reading: Reading) -> Sequence[Reading]:
        """It went on, or never will; returns those that waited for it."""
        before = self.storing.get(reading.client_id)
        if before is not None and reading in before:
            before.remove(reading)
            if not before:
                del self.storing[reading.client_id]
        return self.behind.pop(reading, ()) if self.behind else ()

    def is_first(self, reading: Reading) -> bool:
        """Whether none of its client is being stored before it."""
        before = self.storing.get(reading.client_id)
        return before is None or before[0] is reading

    def follow(self, reading: Reading) -> bool:
        """Wait behind the newest of its client, which there is; False if too many do."""
        followers = self.behind.setdefault(self.storing[reading.client_id][-1], [])
        if len(followers) >= FOLLOWERS_MAX:
            return False
        followers.append(reading)
        return True
