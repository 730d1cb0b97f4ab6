"""SenML (RFC 8428) to points: base values resolved, relative times made absolute.

A pack is read in either form, CBOR with its small integers or JSON with its short names. What a
node may leave out, it may leave out here; what the RFC forbids is a fault, because to guess would
put wrong numbers among the right ones. It is the fault of its record alone, a base value's of those
that it is for; the pack is refused as a whole for its version, and for a label that must be
understood.

Three readings of ours:
- The name is split for the table: `device` is the base name, `metric` the record's own. A record
  that has only a base name measures `value`.
- A sum (section 4.3) is a metric of its own, `<name>.sum`, its unit that of the value with `.s`.
- A time below 2**28 is relative to when the gateway took the reading on, not to when it got here:
  it may have waited in the gateway's journal for days. `now_us` is that time.

Limit: RECORDS_MAX records; a pack with more is refused whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite

from spark_ingest.payload.plain import BARE
from spark_ingest.payload.record import Fault, Point, UndecodableError
from spark_ingest.payload.scalars import (
    fitting_name,
    is_number,
    microseconds,
    name,
    number,
    shown,
    text,
)

RECORDS_MAX = 1024
VERSION_MAX = 10  # RFC 8428, 4.1: what we implement
RELATIVE_TIME_S_MAX = 2**28  # section 4.5.3


# Labels in CBOR (RFC 8428, table 4). Not an Enum: its members take twice as long to look up.
BASE_VERSION, BASE_NAME, BASE_TIME, BASE_UNIT, BASE_VALUE, BASE_SUM = -1, -2, -3, -4, -5, -6
NAME, UNIT, VALUE, STRING_VALUE, BOOLEAN_VALUE, SUM, TIME, UPDATE_TIME, DATA_VALUE = range(9)

_LABELS = {
    "bver": BASE_VERSION,
    "bn": BASE_NAME,
    "bt": BASE_TIME,
    "bu": BASE_UNIT,
    "bv": BASE_VALUE,
    "bs": BASE_SUM,
    "n": NAME,
    "u": UNIT,
    "v": VALUE,
    "vs": STRING_VALUE,
    "vb": BOOLEAN_VALUE,
    "s": SUM,
    "t": TIME,
    "ut": UPDATE_TIME,
    "vd": DATA_VALUE,
}
_OTHER_VALUES = (STRING_VALUE, BOOLEAN_VALUE, DATA_VALUE)

Record = Mapping[int, object]


@dataclass(slots=True)
class _Base:
    """What the records before and this one have set (section 4.1). What was set to something that
    it cannot be is wrong for all records until it is set again.
    """

    name: str = ""
    time_s: float = 0.0
    unit: str | None = None
    value: float = 0.0
    sum: float | None = None
    faults: dict[int, UndecodableError] = field(default_factory=dict)

    def must_be_good(self, *labels: int) -> None:
        for label in labels:
            if label in self.faults:
                raise self.faults[label]


def is_pack(decoded: object) -> bool:
    """Whether it is meant as one: an array of maps, one of which has a value by a SenML label."""
    if not isinstance(decoded, list) or not decoded:
        return False
    if not all(isinstance(record, Mapping) for record in decoded):
        return False
    first = decoded[0]
    if any(isinstance(label, str) for label in first):
        labels = _LABELS.keys() & first.keys()
        return bool(labels) and (first.keys() <= _LABELS.keys() or "bn" in labels or "n" in labels)
    return all(isinstance(label, int) for label in first)


def points(pack: list[Mapping[object, object]], now_us: int) -> list[Point]:
    if len(pack) > RECORDS_MAX:
        raise UndecodableError(Fault.TOO_LARGE, f"{len(pack)} records, at most {RECORDS_MAX}")
    base = _Base()
    found: list[Point] = []
    for record in pack:
        known = _known(record)
        if any(label < 0 for label in known):
            _set_base(base, known)
        _add_points(found, base, known, now_us)
    if not found:
        raise UndecodableError(Fault.SENML, "no record has a value")
    return found


def _known(record: Mapping[object, object]) -> Record:
    """By label; labels that we must not ignore are refused (section 4.4)."""
    known: dict[int, object] = {}
    for label, value in record.items():
        if type(label) is int:
            known[label] = value
        elif isinstance(label, str):
            if label.endswith("_"):
                raise UndecodableError(Fault.SENML, f"the label {shown(label)} must be understood")
            if (meant := _LABELS.get(label)) is not None:
                known[meant] = value
    return known


def _set_base(base: _Base, record: Record) -> None:
    version = record.get(BASE_VERSION, VERSION_MAX)
    if not isinstance(version, int) or not 0 < version <= VERSION_MAX:
        raise UndecodableError(Fault.SENML, f"version {shown(version)}, we know {VERSION_MAX}")
    for label, set_to in _SETTERS.items():
        if label in record:
            base.faults.pop(label, None)
            try:
                set_to(base, record[label])
            except UndecodableError as error:
                base.faults[label] = error


def _set_name(base: _Base, value: object) -> None:
    base.name = ""
    base.name = _name(value, "bn")


def _set_time(base: _Base, value: object) -> None:
    base.time_s = _numeric(value, "bt")


def _set_unit(base: _Base, value: object) -> None:
    base.unit = _name(value, "bu") or None


def _set_value(base: _Base, value: object) -> None:
    base.value = _numeric(value, "bv")


def _set_sum(base: _Base, value: object) -> None:
    base.sum = 0.0
    base.sum = _numeric(value, "bs")


_SETTERS: Mapping[int, Callable[[_Base, object], None]] = {
    BASE_NAME: _set_name,
    BASE_TIME: _set_time,
    BASE_UNIT: _set_unit,
    BASE_VALUE: _set_value,
    BASE_SUM: _set_sum,
}


def _add_points(found: list[Point], base: _Base, record: Record, now_us: int) -> None:
    """Of one record: its value and its sum, each good or with its fault."""
    others = [label for label in _OTHER_VALUES if label in record]
    has_sum = SUM in record or base.sum is not None
    if VALUE not in record and not others and not has_sum and NAME not in record:
        return  # base values alone
    device = base.name or None
    try:
        metric, unit, time_us = _common(base, record, now_us)
        if len(others) + (VALUE in record) > 1:
            raise UndecodableError(Fault.SENML, f"{shown(metric)} has more than one value")
        if VALUE not in record and not others and not has_sum:
            raise UndecodableError(Fault.SENML, f"{shown(metric)} has no value")
    except UndecodableError as error:
        metric = fitting_name(record.get(NAME), BARE)
        found.append(Point(metric, None, device=device, fault=error))
        return
    try:
        if VALUE in record:
            if base.faults:
                base.must_be_good(BASE_VALUE)
            value = number(base.value + _numeric(record[VALUE], metric), metric)
            found.append(Point(metric, value, None, unit, time_us, device))
        elif others:
            point = _other_point(metric, others[0], record, unit)
            found.append(point._replace(time_us=time_us, device=device))
    except UndecodableError as error:
        found.append(Point(metric, None, None, unit, time_us, device, error))
    if has_sum:
        found.append(_sum(base, record, metric, unit)._replace(time_us=time_us, device=device))


def _common(base: _Base, record: Record, now_us: int) -> tuple[str, str | None, int | None]:
    """Metric, unit and time."""
    metric = _name(record[NAME], "n") if NAME in record else ""
    if base.faults:
        base.must_be_good(BASE_NAME, BASE_TIME, *(() if UNIT in record else (BASE_UNIT,)))
    if not metric and not base.name:
        raise UndecodableError(Fault.SENML, "a record without name and base name")
    unit = (_name(record[UNIT], "u") or None) if UNIT in record else base.unit
    return metric or BARE, unit, _time_us(base, record, now_us)


def _sum(base: _Base, record: Record, metric: str, unit: str | None) -> Point:
    metric, unit = f"{metric}.sum", unit and f"{unit}.s"
    try:
        base.must_be_good(BASE_SUM)
        total = number((base.sum or 0.0) + _numeric(record.get(SUM, 0.0), "s"), "s")
    except UndecodableError as error:
        return Point(metric, None, unit=unit, fault=error)
    return Point(metric, total, unit=unit)


def _other_point(metric: str, label: int, record: Record, unit: str | None) -> Point:
    value = record[label]
    if label == BOOLEAN_VALUE:
        if not isinstance(value, bool):
            raise UndecodableError(Fault.SENML, f"vb of {shown(metric)} is {shown(value)}")
        return Point(metric=metric, value=float(value), text=None, unit=unit)
    if label == DATA_VALUE and isinstance(value, bytes):
        return Point(metric=metric, value=None, text=value.hex(), unit=unit)
    if not isinstance(value, str):
        raise UndecodableError(Fault.SENML, f"{shown(metric)} is {shown(value)}, not text")
    return Point(metric=metric, value=None, text=text(value, metric), unit=unit)


def _time_us(base: _Base, record: Record, now_us: int) -> int | None:
    """None where the pack says nothing about time, which is not the same as now."""
    time_s = base.time_s
    if TIME in record:
        time_s += _numeric(record[TIME], "t")
    if time_s == 0.0:
        return None
    if time_s < RELATIVE_TIME_S_MAX:
        time_s += now_us / 1e6
    return microseconds(time_s, "the time")


def _name(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise UndecodableError(Fault.SENML, f"{what} is {shown(value)}, not text")
    return name(value)


def _numeric(value: object, what: str) -> float:
    if type(value) is float and isfinite(value):
        return value
    if not is_number(value):
        raise UndecodableError(Fault.SENML, f"{what} is {shown(value)}, not a number")
    return number(value, what)
