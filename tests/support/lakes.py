"""Lakes without a broker: segments as a collector writes them, from messages that are given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spark_ingest.payload.record import Delivery
from spark_ingest.payload.registry import Registry, SchemaOptions
from spark_ingest.segments.rows import RowOptions
from spark_ingest.segments.shelf import Shelf
from spark_ingest.segments.writing import SegmentWriter


def write_segments(
    lake: Path,
    collector: str,
    *segments: Sequence[Delivery],
    schemas: Sequence[SchemaOptions] = (),
) -> None:
    """One segment for each sequence of messages, behind those that are there."""
    with Shelf(lake, collector) as shelf:
        writer = SegmentWriter(shelf, Registry(schemas), RowOptions(clock_ahead_s_max=1e9))
        for deliveries in segments:
            writer.write(list(deliveries))
