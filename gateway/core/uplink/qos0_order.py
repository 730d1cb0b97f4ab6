"""Readings of each client that are being stored before they pass on, in order, and the QoS 0
readings that wait behind each of them.

Limit: `FOLLOWERS_MAX` behind one; a further one is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.core.effects import ClientId, Forward

FOLLOWERS_MAX = 32


class Followers:
    def __init__(self) -> None:
        self.storing: dict[ClientId, list[Forward]] = {}  # the same dictionary for ever
        self.behind: dict[Forward, list[Forward]] = {}

    def begin(self, forward: Forward) -> None:
        """It is being stored."""
        before = self.storing.get(forward.client_id)
        if before is None:
            self.storing[forward.client_id] = [forward]
        else:
            before.append(forward)

    def end(self, forward: Forward) -> Sequence[Forward]:
        """It went on, or never will; returns those that waited for it."""
        before = self.storing.get(forward.client_id)
        if before is not None and forward in before:
            before.remove(forward)
            if not before:
                del self.storing[forward.client_id]
        return self.behind.pop(forward, ()) if self.behind else ()

    def is_first(self, forward: Forward) -> bool:
        """Whether none of its client is being stored before it."""
        before = self.storing.get(forward.client_id)
        return before is None or before[0] is forward

    def follow(self, forward: Forward) -> bool:
        """Wait behind the newest of its client, which there is; False if too many do."""
        followers = self.behind.setdefault(self.storing[forward.client_id][-1], [])
        if len(followers) >= FOLLOWERS_MAX:
            return False
        followers.append(forward)
        return True
