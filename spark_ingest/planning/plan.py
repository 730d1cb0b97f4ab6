"""Which segments are next, in what order, and what in them is to be left out.

Segments of several collectors are taken by the time of their first message, as one would merge
sorted lists. Taken in turns instead, the collector with the larger backlog would run ahead, and
whatever has a watermark behind us would drop what the others have: 33 % in our measurement.

Rule 1: what is between two offsets is the same for ever: segments never change, and `seen` of the
        first offset and the order of the rest decide which copy of a reading is left out.
Rule 2: at least one segment, if there is one, however small the limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from spark_ingest.planning.offset import Offset
from spark_ingest.planning.seen import GatewayEpoch
from spark_ingest.segments.footer import Footer
from spark_ingest.segments.sequences import Encoded


class Segments(Protocol):
    """What planning asks of the lake."""

    def collectors(self) -> list[str]: ...

    def next_of(self, collector: str, number: int | None, end: int | None) -> int | None:
        """The first segment from this number on, or of all if it is None. None if there is none;
        an error where there was one below `end`.
        """
        ...

    def footer(self, collector: str, number: int) -> Footer: ...

    def bytes_of(self, collector: str, number: int) -> int: ...

    def heads(self) -> dict[str, int]:
        """Behind the last segment of each collector that has one."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one batch; None is no limit."""

    rows: int | None = None
    segments: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    collector: str
    number: int
    footer: Footer
    left_out: Mapping[GatewayEpoch, Encoded]  # readings of it that were in the plan or before it


Ends = Mapping[str, int]  # the first segment that is not to be read any more, by collector


def end_of_batch(start: Offset, segments: Segments, limits: Limits, ends: Ends | None) -> Offset:
    """Behind what one batch takes. The same as `start`, where there is nothing new."""
    following, seen = dict(start.next), start.seen
    rows = octets = 0
    merged = _merged(start.next, segments, ends)
    for taken, (collector, number, footer) in enumerate(merged, 1):
        rows += footer.rows
        if limits.bytes is not None:
            octets += segments.bytes_of(collector, number)
        over = (
            (limits.rows is not None and rows > limits.rows)
            or (limits.segments is not None and taken > limits.segments)
            or (limits.bytes is not None and octets > limits.bytes)
        )
        if over and taken > 1:
            break
        seen.add(footer.ids)
        following[collector] = number + 1
    return Offset(following, seen)


def planned(start: Offset, end: Offset, segments: Segments) -> list[Planned]:
    """What is between them."""
    return [
        Planned(
            collector=collector, number=number, footer=footer, left_out=start.seen.add(footer.ids)
        )
        for collector, number, footer in _merged(start.next, segments, end.next)
    ]


def _merged(
    following: Mapping[str, int], segments: Segments, ends: Ends | None
) -> Iterator[tuple[str, int, Footer]]:
    """From the next of each collector on; `ends` are behind the last."""
    waiting: dict[str, tuple[int, Footer]] = {}
    at: dict[str, int | None] = {name: following.get(name) for name in segments.collectors()}
    if ends is not None:
        at |= {name: following.get(name) for name in ends}
        at = {name: number for name, number in at.items() if name in ends}
    while True:
        for name, number in at.items():
            if name not in waiting:
                end = None if ends is None else ends[name]
                if number is not None and end is not None and number >= end:
                    continue
                found = segments.next_of(name, number, end)
                if found is not None and (end is None or found < end):
                    waiting[name] = found, segments.footer(name, found)
        if not waiting:
            return
        name = min(waiting, key=lambda each: (waiting[each][1].first_us, each))
        number, footer = waiting.pop(name)
        yield name, number, footer
        at[name] = number + 1
