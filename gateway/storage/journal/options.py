"""What the journal is told by the settings, its limits, and how it says that it cannot start."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

SEGMENT_BYTES_MAX = 1 << 20
SEGMENT_BYTES_MIN = 64 << 10
# Found at a start, a segment is read as far as this; no release has written larger ones.
FILE_BYTES_MAX = 64 << 20
# The least that works: one segment being written, one that drains, and two that stand ready.
SEGMENTS_MIN = 4

# What waits for the disk. At a flush of 500 ms, the worst seen on a card, that is 8 MiB a second;
# beyond it a reading is refused as if the journal were full.
PENDING_BYTES_MAX = 4 << 20

# Readings are known as copies this long after they came (reliability: a sensor's own retries).
RECENT_S = 90.0
# Drained segments are kept for that as long as they take less than this part of the budget.
RECENT_SHARE = 4

# And so many of each client; nobody repeats more than a few (admission keeps 16).
RECENT_PER_CLIENT_MAX = 64

# After an attempt to make a segment failed (disk full, disk broken), the next one is this far off.
RETRY_AFTER_S = 1.0

# What is finished is written at once but synced with company, or after so long.
LAZY_SYNC_S = 2.0
# And of a segment's bytes no more than this part is ever written so, or written again from others.
LAZY_PART = 16

# Whether the files are still where they were is looked at this often while nothing is written, and
# a file that cannot be opened stops those behind it for so long.
LOOK_S = 1.0
UNREADABLE_S = 30.0

# One look at the backlog brings at most this much.
BACKLOG_READINGS_MAX = 512
BACKLOG_BYTES_MAX = 256 << 10

# Damaged segments are kept as copies for the operator to look at, this many.
DAMAGED_COPIES_MAX = 8


class WhenFull(Enum):
    REJECT = "reject"
    DROP_OLDEST = "drop_oldest"


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """`salt` gives a fresh random number below 2**32; the simulator has one of its own."""

    size_max_bytes: int = 512 << 20
    when_full: WhenFull = WhenFull.REJECT
    recent_s: float = RECENT_S
    pending_bytes_max: int = PENDING_BYTES_MAX
    salt: Callable[[], int] = lambda: int.from_bytes(os.urandom(4), "big")

    @property
    def lazy_bytes_max(self) -> int:
        """What may be written without fdatasync. Every segment keeps as much room for it, should
        the one before it fail: so it is what the smallest one can spare, whatever size is usual.
        """
        return min(self.segment_bytes, SEGMENT_BYTES_MIN) // LAZY_PART

    @property
    def segment_bytes(self) -> int:
        """Eight segments or more, where they are not too small; a power of two."""
        size = SEGMENT_BYTES_MAX
        while size > SEGMENT_BYTES_MIN and size * 8 > self.size_max_bytes:
            size //= 2
        return size


class GoneError(OSError):
    """The journal's files are not where they were."""


class JournalError(OSError):
    """The journal cannot be used; the message says what to do."""
