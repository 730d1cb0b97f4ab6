"""A message as a record of a Kafka topic: its rows, as segments have them, as JSON. Pure.

    key        the gateway, so that a partition has all of it in order; else the topic
    headers    tidegate: the version; gw, epoch, seq: the delivery tag, where it is complete
    value      {"topic", "client", ..., "rows": [{"part", "ts", "metric", "value", ...}]}

Names are those of record.COLUMNS, times are Unix microseconds, a payload is base64, and what is
null is left out.

Rule 1: all rows of a message are in one record, so it is there whole or not at all.
Rule 2: a record has at most `bytes_max` octets of value. A message of more rows than that becomes
        one row in quarantine, with its payload: that fits, as `config.rules` has seen to it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from spark_ingest.record import Fault
from spark_ingest.rows import Columns

VERSION = 1
VERSION_HEADER = "tidegate"
TAG_HEADERS = ("gw", "epoch", "seq")
OF_MESSAGE = ("gw", "client", "epoch", "seq", "topic", "qos", "retain", "gw_ts", "rx_ts", "schema")
OF_ROW = (
    *("part", "ts", "ts_src", "device", "metric", "value", "unit", "text", "error"),
    "error_detail",
)


@dataclass(frozen=True, slots=True)
class Record:
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]
    rows: int
    is_cut: bool = False  # rule 2


def records_of(columns: Columns, bytes_max: int) -> Iterator[Record]:
    """One for each message, in their order."""
    rows = range(len(columns.message))
    for message, its_rows in groupby(rows, columns.message.__getitem__):
        yield _record(columns, message, list(its_rows), bytes_max)


def _record(columns: Columns, message: int, rows: list[int], bytes_max: int) -> Record:
    head = {name: getattr(columns, name)[message] for name in OF_MESSAGE}
    listed = [_row(columns, row) for row in rows]
    value = _value(head, listed, columns.payload[message])
    is_cut = len(value) > bytes_max
    if is_cut:
        detail = f"its {len(rows)} rows are {len(value)} octets, a record has at most {bytes_max}"
        first = {name: listed[0][name] for name in ("ts", "ts_src", "device") if name in listed[0]}
        fault: dict[str, Any] = {"part": 0, "error": Fault.TOO_LARGE.value, "error_detail": detail}
        listed = [first | fault | {"payload": True}]
        value = _value(head, listed, columns.payload[message])
    gateway = head["gw"]
    key = head["topic"] if gateway is None else gateway
    headers = [(VERSION_HEADER, str(VERSION).encode())]
    if head["seq"] is not None:
        headers += [(name, str(head[name]).encode()) for name in TAG_HEADERS]
    return Record(key.encode(), value, headers, len(listed), is_cut)


def _row(columns: Columns, row: int) -> dict[str, Any]:
    found = {name: getattr(columns, name)[row] for name in OF_ROW}
    if columns.payload_of[row] is not None:
        found["payload"] = True
    return {name: value for name, value in found.items() if value is not None}


def _value(head: dict[str, Any], rows: list[dict[str, Any]], payload: bytes) -> bytes:
    message = {name: value for name, value in head.items() if value is not None}
    if any("payload" in row for row in rows):
        message["payload"] = b64encode(payload).decode()
    message["rows"] = rows
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()
