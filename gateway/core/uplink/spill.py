"""When a reading on its way to the broker is written to the journal as well, so that its sensor
need not wait (`acknowledge = auto`).

That is when it is unacknowledged after `spill_after_s` and the broker has acknowledged nothing for
as long. A broker that answers all the time only has many of them. Then a reading has `BUSY_FACTOR`
times that: to write all of them to the disk too would take the processor from what they wait for,
and so make more of them late.

Of a client that moved on meanwhile, because it restarted or gave up, a younger reading may be on
the disk by then. What it has left behind is not written any more: nobody waits for it, and after a
power cut it would be read back behind the younger one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import inf

from gateway.core.state_records import ClientId
from gateway.core.values import Reading

BUSY_FACTOR = 10.0
# Of `spill_after_s`, between two looks: by so much a reading may be late. To look for each would
# cost more than all else where a thousand wait.
GRAIN = 0.2
# A journal that could not write is not asked again for what the broker may acknowledge meanwhile.
AGAIN_S = 1.0


class Spill:
    def __init__(self, after_s: float) -> None:
        self.after_s = after_s
        self.due_at = inf  # when to look
        self.settled_at = -inf  # when the broker acknowledged a reading last

    def expect(self, now: float) -> None:
        """A reading goes to the broker; look at it in time."""
        self.due_at = min(self.due_at, now + self.after_s)

    def failed(self, now: float) -> None:
        """What was due could not be written."""
        self.due_at = now + AGAIN_S

    def rest(self) -> None:
        """Nothing is on its way to the broker any more."""
        self.due_at = inf

    def take_due(self, candidates: Iterable[Reading], now: float) -> list[Reading]:
        """Those that are to be written, of all that are unacknowledged and not written yet, the
        oldest first.
        """
        self.due_at = inf
        silent_at = self.settled_at + self.after_s
        is_silent = now >= silent_at
        wait_s = self.after_s if is_silent else self.after_s * BUSY_FACTOR
        due: list[Reading] = []
        for reading in candidates:
            due_at = reading.received_at + wait_s
            if due_at > now:  # and so is nearly all that follows; what is not is found then
                self.due_at = max(due_at if is_silent else silent_at, now + self.after_s * GRAIN)
                break
            due.append(reading)
        return due


def not_overtaken(
    due: Iterable[Reading], held: Iterable[Reading], queued: Collection[ClientId]
) -> list[Reading]:
    """Of those that are due, all but those of a client that has a younger one on the disk: among
    the ones that are `held` in memory as well, or `queued`.
    """
    youngest: dict[ClientId, tuple[int, int]] = {}
    for reading in held:
        if reading.record >= 0:
            age = reading.epoch, reading.sequence
            youngest[reading.client_id] = max(age, youngest.get(reading.client_id, age))
    return [
        reading
        for reading in due
        if reading.client_id not in queued
        and (reading.epoch, reading.sequence) >= youngest.get(reading.client_id, (-1, -1))
    ]
