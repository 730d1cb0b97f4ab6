"""What the rules of access did not allow: the last refusals, for the operator to see.

One entry for a client, what it wanted to do, and a topic, however often it was refused. Each is
logged when it is new, and once in `LOG_S` while it goes on.

Full: of `LISTED_MAX` entries the one that was not refused for the longest time is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from gateway.core.effects import Denied, Dropped

LISTED_MAX = 200
LOG_S = 60.0


@dataclass(slots=True)
class Refused:
    """`last_at`: by the clock of who asks, in seconds."""

    client_id: str | None
    denied: Denied
    count: int = 0
    last_at: float = 0.0
    logged_at: float = -inf

    def json(self, now: float, unix_s: float) -> dict[str, object]:
        return {
            "client_id": self.client_id,
            "identity": self.denied.identity,
            "action": self.denied.action,
            "topic": self.denied.topic,
            "count": self.count,
            "last_at": round(unix_s - (now - self.last_at), 1),
        }


class Refusals:
    def __init__(self) -> None:
        # The one that was refused last is the last one.
        self._entries: dict[tuple[str | None, str, str], Refused] = {}

    def note(self, dropped: Dropped, denied: Denied, now: float) -> bool:
        """Whether it is to be logged."""
        key = (dropped.client_id, denied.action, denied.topic)
        entry = self._entries.pop(key, None)
        if entry is None:
            entry = Refused(dropped.client_id, denied)
            if len(self._entries) >= LISTED_MAX:
                del self._entries[next(iter(self._entries))]
        self._entries[key] = entry
        entry.denied = denied  # it may be known otherwise by now
        entry.count += dropped.count
        entry.last_at = now
        if now < entry.logged_at + LOG_S:
            return False
        entry.logged_at = now
        return True

    def __iter__(self) -> Iterator[Refused]:
        """The last one first."""
        return reversed(self._entries.values())
