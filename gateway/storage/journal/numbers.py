"""How the journal stands, for health, metrics and `tidegate buffer`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class JournalState(Enum):
    OK = "ok"
    DEGRADED = "degraded"  # a write failed; what it held is safe in another segment
    FULL = "full"  # no room for readings; finishing and draining go on
    FAILED = "failed"  # nothing can be written


@dataclass(slots=True)
class JournalNumbers:
    """Counters are of this life of the gateway."""

    state: JournalState = JournalState.OK
    depth: int = 0  # readings that the broker has not taken
    kept: int = 0  # readings that it has, and nobody has ingested
    queued: int = 0  # those of them that wait to be read back
    bytes: int = 0  # of all files
    bytes_max: int = 0
    fill: float = 0.0  # 0..1: how much of the budget is held by segments with unfinished readings
    oldest_received_at: float | None = None  # of those that the broker has not, monotonic seconds
    segments: int = 0
    damaged: int = 0  # damaged places found
    lost: int = 0  # readings that could not be read back
    out_of_reach: int = 0  # of those queued on disk: in files that are gone or cannot be opened
    backlog_problem: str = ""  # why
    readings: int = 0  # taken on
    finished: int = 0
    dropped: int = 0  # by when_full = "drop_oldest"
    groups: int = 0
    syncs: int = 0  # fdatasync of groups
    bytes_written: int = 0
    failures: int = 0  # writes and syncs that failed
