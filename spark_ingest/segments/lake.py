"""The lake as its readers see it: which segments there are, and what their footers say.

Rule 1: a segment that is missing between others is an error, because its readings would be missing
        from the tables and nobody would know. To go on without is an option.
Rule 2: folders are listed again only when they have changed.

Limit: FOOTERS_MAX footers are kept; others are read again.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from pathlib import Path

from spark_ingest.segments.footer import Footer, FooterError
from spark_ingest.segments.segment import read_footer
from spark_ingest.segments.shelf import SEGMENTS, collectors_in, segment_numbers, segment_path

log = logging.getLogger("tidegate.ingest.lake")

FOOTERS_MAX = 2_000
# A file system's clock ticks slowly: what changed just now may change again under the same time.
CLOCK_TICK_NS_MAX = 2_000_000_000


class SegmentLostError(Exception):
    """A segment is gone or damaged, and what was in it with it."""


class LakeSegments:
    """For the planner. `fails_on_loss` is rule 1."""

    def __init__(self, lake: Path, *, fails_on_loss: bool = True) -> None:
        self._lake = lake
        self._fails_on_loss = fails_on_loss
        self._footers: dict[tuple[str, int], Footer] = {}
        self._numbers: dict[str, tuple[int, list[int]]] = {}  # and the folder's time
        self._logged: set[tuple[str, int]] = set()

    def collectors(self) -> list[str]:
        return collectors_in(self._lake)

    def next_of(self, collector: str, number: int | None, end: int | None) -> int | None:
        """Raises SegmentLostError, as rule 1 says."""
        numbers = self._listed(collector)
        index = 0 if number is None else bisect_left(numbers, number)
        for found in numbers[index:]:
            # A listing that was made while files came may have left out one before another.
            if number is not None and found != number and self._is_there(collector, number):
                found = number
            if number is not None and found != number:
                self._lost(collector, number, f"segments {number} to {found - 1} are gone")
            if self._is_readable(collector, found):
                return found
            number = found + 1
        if end is not None and (number is None or number < end):
            self._lost(collector, number or 0, f"segments up to {end - 1} are gone")
        return None

    def footer(self, collector: str, number: int) -> Footer:
        """Raises FooterError, and OSError."""
        key = collector, number
        if key not in self._footers:
            if len(self._footers) >= FOOTERS_MAX:
                del self._footers[next(iter(self._footers))]
            self._footers[key] = read_footer(segment_path(self._lake, collector, number))
        return self._footers[key]

    def bytes_of(self, collector: str, number: int) -> int:
        return segment_path(self._lake, collector, number).stat().st_size

    def heads(self) -> dict[str, int]:
        listed = ((name, self._listed(name)) for name in self.collectors())
        return {name: numbers[-1] + 1 for name, numbers in listed if numbers}

    def _is_there(self, collector: str, number: int) -> bool:
        return segment_path(self._lake, collector, number).exists()

    def _is_readable(self, collector: str, number: int) -> bool:
        try:
            self.footer(collector, number)
        except (FooterError, OSError) as error:
            self._lost(collector, number, str(error))
            return False
        return True

    def _lost(self, collector: str, number: int, what: str) -> None:
        folder = self._lake / SEGMENTS / collector
        if self._fails_on_loss:
            raise SegmentLostError(
                f"{folder}: {what}, and this query has not read them. Bring them back (a copy "
                "from a backup under the same name), or go on without: failOnDataLoss=false"
            )
        if (collector, number) not in self._logged:
            self._logged.add((collector, number))
            log.warning("%s: %s; going on without", folder, what)

    def _listed(self, collector: str) -> list[int]:
        folder = self._lake / SEGMENTS / collector
        try:
            changed_ns = folder.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        known = self._numbers.get(collector)
        if known is not None and known[0] == changed_ns:
            return known[1]
        numbers = segment_numbers(self._lake, collector)
        if time.time_ns() - changed_ns > CLOCK_TICK_NS_MAX:
            self._numbers[collector] = changed_ns, numbers
        return numbers
