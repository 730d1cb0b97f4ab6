"""Messages as a broker brings them, for tests that need some."""

from __future__ import annotations

import json

from spark_ingest.payload.record import Delivery
from spark_ingest.payload.registry import Registry, SchemaOptions
from spark_ingest.segments.rows import RowOptions, Rows

RECEIVED_US = 1_800_000_000_000_000
TAKEN_ON_MS = 1_799_999_000_000


def tagged(
    sequence: int, *, gw: str = "gh", epoch: int = 1, client: str = "s1", ts: int = TAKEN_ON_MS
) -> list[tuple[str, str]]:
    return [
        ("gw", gw),
        ("client", client),
        ("epoch", str(epoch)),
        ("seq", str(sequence)),
        ("ts", str(ts)),
    ]


def delivery(
    payload: bytes | object,
    properties: list[tuple[str, str]] | None = None,
    *,
    topic: str = "farm/1/climate",
    packet_id: int = 1,
    received_us: int = RECEIVED_US,
    qos: int = 1,
) -> Delivery:
    """Anything but bytes becomes JSON."""
    octets = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return Delivery(topic, octets, qos, False, properties or [], received_us, packet_id, 1)


def rows_of(
    *deliveries: Delivery,
    schemas: tuple[SchemaOptions, ...] = (),
    options: RowOptions | None = None,
) -> Rows:
    rows = Rows(Registry(schemas), options or RowOptions())
    for each in deliveries:
        rows.add(each)
    return rows
