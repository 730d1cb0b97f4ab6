"""What goes between the journal's two sides: jobs to the worker, with room for what came of them,
and what the core is to hear.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from gateway.core.drop_reasons import Reason
from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.storage.journal.records import HEAD_BYTES
from gateway.storage.journal.segment import Header
from gateway.storage.journal.segment_index import BegunSegment, Exchange, ExchangeKey, Segment

Mark = tuple[int, bytes]  # kind and body
Pending = tuple[Reading, int, bytes]  # a reading, the flags of its record, its body


@dataclass(slots=True)
class CommitGroup:
    """What one `write` makes durable: `marks`, then `readings`, with one fdatasync.

    `header` is what a new segment begins with, but for salt and serial. `is_lazy`: without
    fdatasync, because nobody waits for it. Room is made after that: `frees`, `spare_bytes`.
    """

    header: Header
    session: int = 0  # of the broker, as a new segment says it
    readings: list[Pending] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    starts_segment: bool = False
    is_lazy: bool = False
    frees: list[Segment] = field(default_factory=list)
    frees_by_marks: list[Segment] = field(default_factory=list)  # those of them that need the marks
    spare_bytes: int = 0  # make a spare of this size,
    spare_bytes_min: int = 0  # or of this one, where the disk has no room for it
    drops: Segment | None = None  # count its readings queued on disk, then free it
    refused: list[Reading] = field(default_factory=list)  # there is no room for them

    # For the loop's own end of it
    awaited: int = 0  # of receive and release
    idle: list[int] = field(default_factory=list)  # released, nobody waits
    done_up_to: int = -1
    done: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    about: set[int] = field(default_factory=set)  # serials that the marks are about
    restated_segments: list[Segment] = field(default_factory=list)
    restated_exchanges: list[tuple[ExchangeKey, Exchange]] = field(default_factory=list)
    restated_bytes: int = 0

    # What came of it
    started: list[BegunSegment] = field(default_factory=list)
    landed: Header | None = None
    end: int = 0
    was_tried: bool = False  # some of it may be on the disk, whatever came of it
    abandoned: set[int] = field(default_factory=set)  # serials
    freed: list[Segment] = field(default_factory=list)
    dropped: dict[ClientId, int] = field(default_factory=dict)
    room_error: OSError | None = None  # why no room could be made
    failures: int = 0
    syncs: int = 0
    bytes_written: int = 0

    @property
    def marks_bytes(self) -> int:
        return sum(HEAD_BYTES + len(body) for _, body in self.marks)

    @property
    def needs_segment(self) -> bool:
        return bool(self.readings or self.marks or self.starts_segment)

    @property
    def makes_room(self) -> bool:
        """Or brings it nearer."""
        return bool(self.frees or self.spare_bytes or self.restated_bytes)

    @property
    def has_work(self) -> bool:
        return bool(self.needs_segment or self.frees or self.spare_bytes or self.refused)

    def leave_marks(self) -> None:
        """There is no room for them now, nor for what depends on them."""
        self.marks.clear()
        if self.restated_bytes:
            self.frees = [each for each in self.frees if each not in self.frees_by_marks]
            self.drops = None
        self.restated_segments.clear()
        self.restated_exchanges.clear()
        self.restated_bytes = self.awaited = 0
        self.idle, self.done, self.kept, self.done_up_to = [], [], [], -1
        self.about.clear()

    def restate(self, kind: int, body: bytes) -> None:
        self.marks.append((kind, body))
        self.restated_bytes += HEAD_BYTES + len(body)


@dataclass(slots=True)
class Outcome:
    """What a group came to, for the core, in this order."""

    stored: list[Reading] = field(default_factory=list)
    indeterminate: list[Reading] = field(
        default_factory=list
    )  # not stored, but perhaps on the disk
    not_stored: list[Reading] = field(default_factory=list)
    reason: Reason = Reason.JOURNAL_FULL  # why not
    # of those queued on disk, by drop_oldest
    dropped: dict[ClientId, int] = field(default_factory=dict)


@dataclass(slots=True)
class PathCheck:
    """Whether the files are in their place: these, and whether those of them can be opened that
    could not.
    """

    names: list[str]
    tried: list[str]
    problems: dict[str, str] = field(default_factory=dict)  # by name
    error: OSError | None = None  # the folder, or what is written to, is gone
    abandoned: set[int] = field(default_factory=set)  # serials


@dataclass(slots=True)
class Stretch:
    """A part of a segment: from `offset` to `end`, and up to where it was read."""

    segment: Segment
    offset: int
    end: int
    read_to: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """A segment that could not be opened, or, with `has_gaps`, some blocks of which could not be
    read; and why: `error` is of `errno`.
    """

    segment: Segment
    error: int
    why: str
    has_gaps: bool = False


@dataclass(slots=True)
class BacklogRequest:
    """Where the next readings queued on disk are, or those with these `numbers`; and what came of
    it.

    `accepts_gaps`: blocks that the disk cannot read count as lost; else they are tried again.
    """

    stretches: list[Stretch]
    now: float
    unix_ms_at_zero: float
    began: float = -inf  # when this run of the gateway did
    numbers: frozenset[int] | None = None
    accepts_gaps: bool = True
    failed: Failed | None = None

    def wants(self, segment: Segment, index: int) -> bool:
        if self.numbers is None:
            return segment.is_wanted(index)
        return segment.first + index in self.numbers
