"""Which form a payload has, and its points. The schema of its topic may say which; else the first
byte tells: no CBOR that fits a packet begins as JSON does, but for single small numbers.
"""

from __future__ import annotations

import json
from enum import Enum
from io import BytesIO
from math import inf

import cbor2

from spark_ingest.payload import plain, senml
from spark_ingest.payload.record import Fault, Point, UndecodableError
from spark_ingest.payload.scalars import text

# The first byte of JSON, behind white space: { [ " - digits, true, false, null.
_JSON_BEGINS = frozenset(b'{["-0123456789tfn')
_WHITE_SPACE = b" \t\r\n"
# cbor2 reads ahead of what it decodes; a second value is found by what is left of the first.
_TAIL_OCTETS_MAX = 1
DIGITS_MAX = 4000  # of a number; Python's own limit is a bit above


class Format(Enum):
    AUTO = "auto"
    SENML = "senml"  # in CBOR or JSON
    CBOR = "cbor"  # plain
    JSON = "json"  # plain
    TEXT = "text"  # the payload is one text, or one number


def decode(
    payload: bytes,
    now_us: int,
    *,
    format: Format = Format.AUTO,
    time_field: str | None = None,
    time_unit_s: float = 1.0,
) -> list[Point]:
    """At least one point; a value that cannot be trusted is one with a fault. `now_us` is when the
    reading was taken on, for relative times. Raises UndecodableError for the payload as a whole.
    """
    if not payload:
        raise UndecodableError(Fault.EMPTY, "no payload")
    if format is Format.TEXT:
        return [_bare(payload)]
    decoded = _json(payload) if _is_json(payload, format) else _cbor(payload)
    if format is Format.SENML or (format is Format.AUTO and senml.is_pack(decoded)):
        if not _is_array_of_maps(decoded):
            raise UndecodableError(Fault.SENML, "not an array of records")
        return senml.points(decoded, now_us)  # type: ignore[arg-type]  # just looked at
    return plain.points(decoded, time_field=time_field, time_unit_s=time_unit_s)


def _is_json(payload: bytes, format: Format) -> bool:
    if format in (Format.CBOR, Format.JSON):
        return format is Format.JSON
    begin = payload.lstrip(_WHITE_SPACE)
    return bool(begin) and begin[0] in _JSON_BEGINS


def _is_array_of_maps(decoded: object) -> bool:
    return (
        isinstance(decoded, list)
        and bool(decoded)
        and all(isinstance(record, dict) for record in decoded)
    )


def _json(payload: bytes) -> object:
    try:
        return json.loads(payload, parse_int=_int_of if len(payload) > DIGITS_MAX else None)
    except (ValueError, RecursionError) as error:
        raise UndecodableError(Fault.FORM, f"no JSON: {error}") from None


def _int_of(digits: str) -> int | float:
    """Python reads no number of thousands of digits, and no column holds one: infinite."""
    return int(digits) if len(digits) <= DIGITS_MAX else inf


def _cbor(payload: bytes) -> object:
    stream = BytesIO(payload)
    try:
        decoded = cbor2.load(stream)
    except Exception as error:  # of any type: tags of CBOR make objects of any kind
        reason = str(error) or type(error).__name__
        raise UndecodableError(Fault.FORM, f"no CBOR: {reason}") from None
    if stream.read(_TAIL_OCTETS_MAX):
        raise UndecodableError(Fault.FORM, "bytes after the CBOR value")
    return decoded


def _bare(payload: bytes) -> Point:
    try:
        reason = payload.decode()
    except UnicodeDecodeError:
        raise UndecodableError(Fault.FORM, "no UTF-8 text") from None
    try:
        return plain.points(float(reason), time_field=None, time_unit_s=1.0)[0]
    except ValueError:
        return Point(plain.BARE, None, text(reason, plain.BARE))
