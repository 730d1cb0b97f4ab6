"""Readings that a client is done with, by message id: what a copy of one would look like.

Nearly every reading that comes has an id that is not among them, and that must be known without a
look at sixteen places in memory, or at a dictionary that is emptied at one end and filled at the
other. So a number has a bit for each id: where it is not set, the id is not here. Bits of ids that
are gone stay until one of them sends somebody to look; then they are made again.

A client whose message ids rise in a connection counts them, so an id that comes again there without
DUP is a copy that the network made. It is not so where one id is used for all, or a few in turn.

Full: beyond `RECENT_MAX` the oldest is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

RECENT_MAX = 16
RISING_MIN = 3  # ids, from which on a client counts
_BITS = 61  # as many as fit a number that is no object

Contents = int


@dataclass(slots=True, eq=False)
class RecentReading:
    """What a copy would look like, and until when it is taken for one."""

    message_id: int
    contents: Contents
    until: float
    later: RecentReading | None = None  # the next that came
    is_of_connection: bool = True  # the one that is on


class RecentReadings:
    """Of one client, the oldest first.

    A chain, as of many clients nothing is in the processor's caches: what comes next looks at the
    oldest, where a list would be two more places in memory.
    """

    __slots__ = ("_bits", "_count", "_newest", "oldest")

    def __init__(self) -> None:
        self.oldest: RecentReading | None = None
        self._newest: RecentReading | None = None
        self._count = 0
        self._bits = 0

    def __len__(self) -> int:
        return self._count

    def find(self, message_id: int) -> RecentReading | None:
        if not self._bits >> message_id % _BITS & 1:
            return None
        bits, found = 0, None
        each = self.oldest
        while each is not None:
            bits |= 1 << each.message_id % _BITS
            if each.message_id == message_id:
                found = each
            each = each.later
        self._bits = bits
        return found

    def remember(self, message_id: int, contents: Contents, now: float, until: float) -> None:
        """One goes for each that comes, so the outdated do in time."""
        before = self.find(message_id)
        if before is not None:
            self._take_out(before)
        one = self.oldest
        if one is not None and (self._count >= RECENT_MAX or one.until <= now):
            self.oldest, one.later = one.later, None  # and its place in memory is the next one's
            one.message_id, one.contents, one.until = message_id, contents, until
            one.is_of_connection = True
        else:
            one = RecentReading(message_id, contents, until)
            self._count += 1
        if self.oldest is None or self._newest is None:
            self.oldest = one
        else:
            self._newest.later = one
        self._newest = one
        self._bits |= 1 << message_id % _BITS

    def end_connection(self) -> None:
        """The client may count from 1 again."""
        each = self.oldest
        while each is not None:
            each.is_of_connection = False
            each = each.later

    def is_rising(self, one: RecentReading) -> bool:
        """Whether this one came in the connection that is on, and the ids rise there."""
        count, last, each = 0, -1, self.oldest
        while each is not None:
            if each.is_of_connection:
                if each.message_id <= last:
                    return False
                count, last = count + 1, each.message_id
            each = each.later
        return one.is_of_connection and count >= RISING_MIN

    def at(self, now: float) -> RecentReadings | None:
        """Those that count still, in no more memory than they need; None if there is none."""
        left, each = RecentReadings(), self.oldest
        while each is not None:
            if each.until > now:
                left.remember(each.message_id, each.contents, now, each.until)
                assert left._newest is not None, "it is this one"
                left._newest.is_of_connection = each.is_of_connection
            each = each.later
        return left if left._count else None

    def _take_out(self, one: RecentReading) -> None:
        before, each = None, self.oldest
        while each is not one and each is not None:
            before, each = each, each.later
        if before is None:
            self.oldest = one.later
        else:
            before.later = one.later
        if one.later is None:
            self._newest = before
        self._count -= 1
