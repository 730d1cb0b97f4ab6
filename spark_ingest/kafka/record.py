"""A message as a record of a Kafka topic: its rows, as segments have them, as JSON. Pure.

    key        the gateway, so that a partition has all of it in order; else the topic
    headers    tidegate: the version; gw, epoch, seq: the delivery tag, where it is complete
    value      {"topic", "client", ..., "rows": [{"part", "ts", "metric", "value", ...}]}

Names are those of record.COLUMNS, times are Unix microseconds, a payload is base64, and what is
null is left out.

Rule 1: all rows of a message are in one record, so it is there whole or not at all.
Rule 2: a record has at most `bytes_max` bytes of value. A message of more rows than that becomes
        one row in quarantine, with its payload. That fits: `config.cross_checks` requires it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from spark_ingest.payload.record import Fault
from spark_ingest.segments.rows import Columns

VERSION = 1
VERSION_HEADER = "tidegate"
TAG_HEADERS = ("gw", "epoch", "seq")
OF_MESSAGE = ("gw", "client", "epoch", "seq", "topic", "qos", "retain", "gw_ts", "rx_ts", "schema")
OF_ROW = (
    "part",
    "ts",
    "ts_src",
    "device",
    "metric",
    "value",
    "unit",
    "text",
    "error",
    "error_detail",
)
VERSION_OF_OURS = (VERSION_HEADER, str(VERSION).encode())
# Made once, which json.dumps does for each call with options.
_ENCODED = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


@dataclass(frozen=True, slots=True)
class Record:
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]
    rows: int
    is_cut: bool = False  # rule 2


def records_of(columns: Columns, bytes_max: int) -> Iterator[Record]:
    """One for each message, in their order."""
    messages = zip(*(getattr(columns, name) for name in OF_MESSAGE), strict=True)
    rows = zip(columns.message, _rows(columns), strict=True)
    by_message = groupby(rows, itemgetter(0))
    for message, payload, (_, its_rows) in zip(messages, columns.payload, by_message, strict=True):
        head = {
            name: value
            for name, value in zip(OF_MESSAGE, message, strict=True)
            if value is not None
        }
        yield _record(head, payload, [row for _, row in its_rows], bytes_max)


def _rows(columns: Columns) -> Iterator[dict[str, Any]]:
    values = zip(*(getattr(columns, name) for name in OF_ROW), strict=True)
    for row, shown in zip(values, columns.payload_of, strict=True):
        found = {name: value for name, value in zip(OF_ROW, row, strict=True) if value is not None}
        if shown is not None:
            found["payload"] = True
        yield found


def _record(
    head: dict[str, Any], payload: bytes, rows: list[dict[str, Any]], bytes_max: int
) -> Record:
    value = _value(head, rows, payload)
    is_cut = len(value) > bytes_max
    if is_cut:
        rows = [_cut(rows, f"{len(value)} bytes, a record has at most {bytes_max}")]
        value = _value(head, rows, payload)
    headers = [VERSION_OF_OURS]
    if "seq" in head:
        headers += [(name, str(head[name]).encode()) for name in TAG_HEADERS]
    return Record(
        key=head.get("gw", head["topic"]).encode(),
        value=value,
        headers=headers,
        rows=len(rows),
        is_cut=is_cut,
    )


def _cut(rows: list[dict[str, Any]], detail: str) -> dict[str, Any]:
    """Rule 2."""
    first: dict[str, Any] = {
        name: rows[0][name] for name in ("ts", "ts_src", "device") if name in rows[0]
    }
    return {
        "part": 0,
        **first,
        "error": Fault.TOO_LARGE.value,
        "error_detail": f"its {len(rows)} rows are {detail}",
        "payload": True,
    }


def _value(head: dict[str, Any], rows: list[dict[str, Any]], payload: bytes) -> bytes:
    if any("payload" in row for row in rows):
        head = {**head, "payload": b64encode(payload).decode()}
    return _ENCODED({**head, "rows": rows}).encode()
