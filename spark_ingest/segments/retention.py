"""Removing segments that every query has read, oldest first.

Rule 1: what any consumer has yet to read stays, and so does the newest segment of each collector:
        its number is where the next one begins.
Rule 2: without a consumer nothing is removed, as nothing is known to have been read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spark_ingest.segments.consumers import Consumers
from spark_ingest.segments.footer import FooterError
from spark_ingest.segments.segment import read_footer
from spark_ingest.segments.shelf import collectors_in, segment_numbers, segment_path


def removable(lake: Path, before_us: int) -> Iterator[Path]:
    """Segments whose last message came before this time. One that is damaged, and all behind it,
    stay.
    """
    read = Consumers(lake).read_by_all()
    for collector in collectors_in(lake):
        for number in segment_numbers(lake, collector)[:-1]:
            path = segment_path(lake, collector, number)
            if number >= read.get(collector, 0) or not _is_older(path, before_us):
                break
            yield path


def _is_older(path: Path, before_us: int) -> bool:
    try:
        return read_footer(path).last_us < before_us
    except (FooterError, OSError):
        return False
