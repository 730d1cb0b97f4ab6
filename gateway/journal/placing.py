"""Into which segment a group goes, and how many of the waiting readings it takes."""

from __future__ import annotations

from gateway.journal.group import Group, Pending
from gateway.journal.ledger import Segment
from gateway.journal.records import FRAME_BYTES
from gateway.journal.room import Room

# Kept free in each segment, for the mark that names a new boot.
SLACK_BYTES = 64


def size_of(pending: Pending) -> int:
    return len(pending[2]) + FRAME_BYTES


def room_in(segment: Segment | None) -> int:
    return 0 if segment is None else segment.size - segment.end - SLACK_BYTES


def is_blocked(pending: list[Pending], current: Segment | None, room: Room) -> bool:
    """Readings wait, and there is no room for the first of them."""
    if not pending:
        return False
    if not room.spares:
        return True
    size = size_of(pending[0])
    if size <= room_in(current):
        return False
    return room.standing() < 2 or size > room.group_bytes_max(room.spares[-1].size)


def place(group: Group, pending: list[Pending], current: Segment | None, room: Room) -> None:
    """`pending`: what may be taken, because there is room for it."""
    spares = room.spares
    used = group.marks_bytes
    left = room_in(current)
    wanted = used + size_of(pending[0]) if pending else used
    if current is not None and used <= left < wanted and room.standing() < 2:
        return  # the last spare is not for readings
    if current is None or wanted > left:
        if spares:
            group.starts_segment = True
            left = room.group_bytes_max(spares[-1].size)
        elif used > left:
            group.leave_marks()
    if pending:
        left = min(left, *(room.group_bytes_max(spare.size) for spare in spares)) - used
        for waiting in pending:
            left -= size_of(waiting)
            if left < 0:
                break
            group.readings.append(waiting)
