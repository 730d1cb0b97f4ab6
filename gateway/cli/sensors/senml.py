"""SenML in CBOR (RFC 8428): the payload of the simulated sensors, as of our firmware.

A pack is an array of maps with small integers as labels; the base name and base time stand in its
first record. Of what the RFC allows we write numbers only, and read any pack that has them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from io import BytesIO

import cbor2

BASE_NAME, BASE_TIME, NAME, UNIT, VALUE, TIME = -2, -3, 0, 1, 2, 6  # RFC 8428, table 4
RECORDS_MAX = 64  # more than any pack that fits a datagram of ours
PAYLOAD_BYTES_MAX = 65_535


class SenmlError(Exception):
    """The payload is no pack that we can show; says why."""


@dataclass(frozen=True, slots=True)
class Measurement:
    name: str
    unit: str
    value: float


@dataclass(frozen=True, slots=True)
class Pack:
    base_name: str
    time_s: float  # Unix time
    measurements: tuple[Measurement, ...]

    def value(self, name: str) -> float | None:
        return next((m.value for m in self.measurements if m.name == name), None)


def encode(pack: Pack) -> bytes:
    records: list[dict[int, object]] = [
        {NAME: m.name, UNIT: m.unit, VALUE: m.value} for m in pack.measurements
    ]
    records[0] = {BASE_NAME: pack.base_name, BASE_TIME: pack.time_s, **records[0]}
    return cbor2.dumps(records)


def decode(payload: bytes) -> Pack:
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise SenmlError(f"{len(payload)} bytes, more than {PAYLOAD_BYTES_MAX}")
    stream = BytesIO(payload)
    try:
        records = cbor2.load(stream)
    except (cbor2.CBORDecodeError, RecursionError, MemoryError, OverflowError) as error:
        raise SenmlError(f"not CBOR: {error}") from error
    if stream.read(1):
        raise SenmlError("bytes after the CBOR value")
    if not isinstance(records, list) or not 0 < len(records) <= RECORDS_MAX:
        raise SenmlError(f"not an array of 1 to {RECORDS_MAX} records")
    return _pack(records)


def _pack(records: list[object]) -> Pack:
    first = records[0]
    if not isinstance(first, dict):
        raise SenmlError("a record is not a map")
    base_name, base_time = first.get(BASE_NAME, ""), first.get(BASE_TIME, 0)
    if not isinstance(base_name, str) or not _is_number(base_time):
        raise SenmlError("base name or base time of a wrong type")
    offset = first.get(TIME, 0)
    time_s = float(base_time) + (float(offset) if _is_number(offset) else 0.0)
    return Pack(base_name, time_s, tuple(_measurement(record) for record in records))


def _measurement(record: object) -> Measurement:
    if not isinstance(record, dict):
        raise SenmlError("a record is not a map")
    name, unit, value = record.get(NAME, ""), record.get(UNIT, ""), record.get(VALUE, math.nan)
    if not isinstance(name, str) or not isinstance(unit, str) or not _is_number(value):
        raise SenmlError("a record without a name, a unit or a number")
    return Measurement(name, unit, float(value))


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 2**63 and math.isfinite(value)
