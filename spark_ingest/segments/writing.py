"""A batch of messages to a segment on the disk. It runs in a thread of its own, one at a time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from spark_ingest.payload.record import Delivery
from spark_ingest.payload.registry import Registry
from spark_ingest.segments.footer import Footer, FooterError
from spark_ingest.segments.rows import RowOptions, Rows
from spark_ingest.segments.segment import octets_of, read_footer
from spark_ingest.segments.sequences import Encoded
from spark_ingest.segments.shelf import Shelf

log = logging.getLogger("tidegate.ingest.segments")


@dataclass(frozen=True, slots=True)
class Written:
    footer: Footer
    bytes: int


class Writer(Protocol):
    """What makes messages durable, wherever that is."""

    place: str  # what the log calls it
    unit: str  # and what is made there

    def newest_ids(self, segments_max: int) -> Iterator[Mapping[str, Encoded]]:
        """What previous runs wrote last."""
        ...

    def write(self, deliveries: list[Delivery]) -> Written:
        """When this returns they are durable. Raises OSError; then they may not be acknowledged."""
        ...


def rows_of(deliveries: Iterable[Delivery], registry: Registry, options: RowOptions) -> Rows:
    rows = Rows(registry, options)
    for delivery in deliveries:
        rows.add(delivery)
    for mistake in rows.mistakes:
        log.error("a payload that our decoder cannot take is in quarantine", exc_info=mistake)
    return rows


class SegmentWriter:
    place = "the disk"
    unit = "segment"

    def __init__(self, shelf: Shelf, registry: Registry, options: RowOptions) -> None:
        self._shelf = shelf
        self._registry = registry
        self._options = options

    def remember(self) -> None:
        """What previous runs learned about payloads, from the newest segment that has it."""
        for path in self._shelf.newest_first():
            try:
                self._registry.restore(read_footer(path).schemas)
            except (FooterError, OSError) as error:
                log.error("%s; it is left as it is, and not read", error)
            else:
                return

    def newest_ids(self, segments_max: int) -> Iterator[Mapping[str, Encoded]]:
        """What is in so many of the newest segments."""
        for path in islice(self._shelf.newest_first(), segments_max):
            with suppress(FooterError, OSError):  # `remember` has logged what is wrong
                yield read_footer(path).ids

    def write(self, deliveries: list[Delivery]) -> Written:
        """When this returns they are durable. Raises OSError; then they may not be acknowledged."""
        rows = rows_of(deliveries, self._registry, self._options)
        columns, footer = rows.finished(self._shelf.collector, self._shelf.next_number)
        octets = octets_of(columns, footer)
        self._shelf.place(octets)
        return Written(footer, len(octets))
