"""Readings that a client is done with, by message id: what a copy of one would look like.

Nearly every reading that comes has an id that is not among them, and that must be known without a
look at sixteen places in memory, or at a dictionary that is emptied at one end and filled at the
other. So a number has a bit for each id: where it is not set, the id is not here. Bits of ids that
are gone stay until one of them sends somebody to look; then they are made anew.

Full: beyond `RECENT_MAX` the oldest is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

RECENT_MAX = 16
_BITS = 61  # as many as fit a number that is no object

Contents = int


@dataclass(slots=True, eq=False)
class Recent:
    """What a copy would look like, and until when it is taken for one."""

    message_id: int
    contents: Contents
    until: float


class Recents:
    """Of one client, the oldest first."""

    __slots__ = ("_bits", "_kept")

    def __init__(self) -> None:
        self._kept: list[Recent] = []
        self._bits = 0

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, message_id: int) -> Recent | None:
        if not self._bits >> message_id % _BITS & 1:
            return None
        bits, found = 0, None
        for each in self._kept:
            bits |= 1 << each.message_id % _BITS
            if each.message_id == message_id:
                found = each
        self._bits = bits
        return found

    def remember(self, message_id: int, contents: Contents, now: float, until: float) -> None:
        """One goes for each that comes, so the outdated do in time."""
        kept = self._kept
        before = self.find(message_id)
        if before is not None:
            kept.remove(before)
        if kept and (len(kept) >= RECENT_MAX or kept[0].until <= now):
            one = kept.pop(0)  # and its place in memory is the next one's
            one.message_id, one.contents, one.until = message_id, contents, until
        else:
            one = Recent(message_id, contents, until)
        kept.append(one)
        self._bits |= 1 << message_id % _BITS

    def at(self, now: float) -> Recents | None:
        """Those that count still, in no more memory than they need; None if there is none."""
        left = Recents()
        for each in self._kept:
            if each.until > now:
                left.remember(each.message_id, each.contents, now, each.until)
        return left if left._kept else None
