"""Into which segment a group goes, and how many of the waiting readings it takes."""

from __future__ import annotations

from gateway.storage.journal.commit_group import CommitGroup, Pending
from gateway.storage.journal.records import FRAME_BYTES
from gateway.storage.journal.segment_index import Segment
from gateway.storage.journal.space import Space, room_in


def size_of(pending: Pending) -> int:
    return len(pending[2]) + FRAME_BYTES


def is_blocked(pending: list[Pending], current: Segment | None, room: Space) -> bool:
    """Readings wait, and there is no room for the first of them."""
    if not pending:
        return False
    if not room.spares:
        return True
    size = size_of(pending[0])
    if size <= room_in(current):
        return False
    return room.standing() < 2 or size > room.largest()


def place(group: CommitGroup, pending: list[Pending], current: Segment | None, room: Space) -> None:
    """`pending`: what may be taken, because there is room for it.

    A group fills the segment that it is meant for. Should that fail, and the spare that is left be
    too small for it, the group fails: it is not made small for a fault that hardly ever comes.
    """
    used = group.marks_bytes
    left = room_in(current)
    wanted = used + size_of(pending[0]) if pending else used
    if current is not None and used <= left < wanted and room.standing() < 2:
        return  # the last spare is not for readings
    if current is None or wanted > left:
        if room.spares:
            group.starts_segment = True
            left = room.largest()
        elif used > left:
            group.leave_marks()
    left -= used
    for waiting in pending:
        left -= size_of(waiting)
        if left < 0:
            break
        group.readings.append(waiting)
