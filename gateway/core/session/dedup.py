"""Readings that were acknowledged lately, by message id: what a duplicate of one would look like.

A client whose message ids rise in a connection counts them, so an id that comes again there without
DUP is a duplicate that the network made. It is not so where one id is used for all, or a few in
turn.

Full: beyond `RECENT_MAX` the oldest is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

RECENT_MAX = 16
RISING_MIN = 3  # ids, from which on a client counts

Contents = int


@dataclass(slots=True, eq=False)
class RecentReading:
    """What a duplicate would look like, and until when it is taken for one."""

    message_id: int
    contents: Contents
    until: float
    is_of_connection: bool = True  # the one that is on


class RecentReadings:
    """Of one client. A list, as a dictionary would be 200 bytes more for each sleeper."""

    __slots__ = ("_oldest_first",)

    def __init__(self) -> None:
        self._oldest_first: list[RecentReading] = []

    def __len__(self) -> int:
        return len(self._oldest_first)

    def find(self, message_id: int) -> RecentReading | None:
        for each in self._oldest_first:
            if each.message_id == message_id:
                return each
        return None

    def remember(self, message_id: int, contents: Contents, now: float, until: float) -> None:
        """One goes for each that comes, so the outdated do in time."""
        before, recent = self.find(message_id), self._oldest_first
        if before is not None:
            recent.remove(before)
        if recent and (len(recent) >= RECENT_MAX or recent[0].until <= now):
            del recent[0]
        recent.append(RecentReading(message_id, contents, until))

    def end_connection(self) -> None:
        """The client may count from 1 again."""
        for each in self._oldest_first:
            each.is_of_connection = False

    def is_rising(self, one: RecentReading) -> bool:
        """Whether this one came in the connection that is on, and the ids rise there."""
        ids = [each.message_id for each in self._oldest_first if each.is_of_connection]
        return one.is_of_connection and len(ids) >= RISING_MIN and ids == sorted(ids)

    def at(self, now: float) -> RecentReadings | None:
        """Those that count still, in no more memory than they need; None if there is none."""
        left = RecentReadings()
        left._oldest_first = [each for each in self._oldest_first if each.until > now]
        return left if left._oldest_first else None
