"""Plain CBOR and JSON to points: each number, text and truth value in it is one.

Maps in maps are joined with dots and items of arrays by number: `{"air": {"t": 21.5}}` is
`air.t`, `[1, 2]` is `0` and `1`. A payload that is one bare value is the metric `value`. Nothing
(null) is no point. Units come from the schema of the topic; so does which field is the time, if
one is.

A value that no column holds is a point with a fault, and the others stay. The time is of all of
them, so a payload whose time is none is refused whole.

Limits: POINTS_MAX values, DEPTH_MAX levels; a payload beyond is refused whole. CBOR can refer to
itself, so the depth is a limit of time too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from spark_ingest.payload.record import Fault, Point, UndecodableError
from spark_ingest.payload.scalars import (
    fitting_name,
    is_number,
    microseconds,
    moment,
    name,
    number,
    shown,
    text,
)

POINTS_MAX = 1024
DEPTH_MAX = 8
KEY_MAX = 2**63  # CBOR has numbers of any length as names of fields
BARE = "value"


def points(decoded: object, *, time_field: str | None, time_unit_s: float) -> list[Point]:
    """`time_field` is the dotted name of the field that says when."""
    found: list[Point] = []
    time_us: int | None = None
    for field, value in _Leaves().of(decoded, "", 0):
        if field == time_field and field:
            time_us = _time_us(value, time_unit_s)
        else:
            found.append(_point(field or BARE, value))
    if not found:
        raise UndecodableError(Fault.FORM, "there is no value in it")
    return found if time_us is None else [point._replace(time_us=time_us) for point in found]


class _Leaves:
    """What is no container, by dotted name; what has a name of no kind as its fault. Containers and
    nothings count towards the limit too: references make a few bytes of CBOR a tree of any size.
    """

    def __init__(self) -> None:
        self._left = POINTS_MAX

    def of(self, value: object, field: str, depth: int) -> Iterator[tuple[str, object]]:
        self._left -= 1
        if self._left < 0:
            raise UndecodableError(Fault.TOO_LARGE, f"more than {POINTS_MAX} values")
        if value is None:
            return
        if not isinstance(value, Mapping | list | tuple):
            yield field, value
            return
        if depth == DEPTH_MAX:
            raise UndecodableError(Fault.TOO_LARGE, f"more than {DEPTH_MAX} levels")
        for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            if not isinstance(key, str | int) or (type(key) is int and abs(key) > KEY_MAX):
                key, inner = shown(key), UndecodableError(Fault.FORM, f"a field is {shown(key)}")
            yield from self.of(inner, f"{field}.{key}" if field else str(key), depth + 1)


def _point(field: str, value: object) -> Point:
    try:
        return _good_point(name(field), value)
    except UndecodableError as error:
        return Point(fitting_name(field, BARE), None, fault=error)


def _good_point(metric: str, value: object) -> Point:
    if isinstance(value, UndecodableError):
        raise value
    if isinstance(value, bool):
        return Point(metric, float(value))
    if is_number(value):
        return Point(metric, number(value, shown(metric)))
    if isinstance(value, str):
        return Point(metric, None, text(value, shown(metric)))
    if isinstance(value, bytes):
        return Point(metric, None, value.hex())
    if isinstance(value, datetime):
        return Point(metric, None, value.isoformat())
    raise UndecodableError(
        Fault.FORM, f"{shown(metric)} is a {type(value).__name__}, which no column holds"
    )


def _time_us(value: object, unit_s: float) -> int:
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, str):
        try:
            return moment(datetime.fromisoformat(value))
        except ValueError:
            pass
    if not is_number(value):
        raise UndecodableError(Fault.CLOCK, f"the time is {shown(value)}")
    return microseconds(number(value, "the time") * unit_s, "the time")
