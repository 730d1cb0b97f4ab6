"""What a payload says, as names and values to look at.

A payload may be anything: SenML (RFC 8428) in JSON or CBOR, plain JSON or CBOR, a number
or a text as it stands; anything else is shown as bytes. Whatever it is, this never raises, and
what is made of it is bounded: VALUES_MAX values, names and texts of TEXT_LENGTH_MAX for people;
`content_of` has limits of its caller.

Numbers are exact. An integer stays one, of any size; a CBOR float of 16 or 32 bits is the shortest
decimal that has the same bits, as its sensor wrote it; what no double can have is an `Exact`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from io import BytesIO
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from gateway.presence.readings import SENML_NAMES

if TYPE_CHECKING:
    from decimal import Decimal

VALUES_MAX = 8
TEXT_LENGTH_MAX = 60
PAYLOAD_BYTES_MAX = 16 * 1024  # more is not read as values
DEPTH_MAX = 8  # of what is nested
_VALUE_NAMES = ("v", "vs", "vb", "vd")
# Beyond that a number is none for Home Assistant, nor for a chart.
_INTEGER_MAX = 10**300
# Digits that a double has in any case: a shorter number is what its text says.
_SAFE_DIGITS = 15

Plain: TypeAlias = float | str | bool
Each = TypeVar("Each")


class Exact(float):
    """A number that no double has; `text` is its decimal, as JSON has it."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> Exact:
        number = super().__new__(cls, text)
        number.text = text
        return number


class Value(NamedTuple):
    """`unit` as SenML has it, or empty."""

    name: str
    value: Plain
    unit: str = ""


Timed: TypeAlias = tuple[Value, float]


class Found(NamedTuple):
    """A value as its payload has it; None is null, or no number at all. `time_s` as SenML has it
    (RFC 8428, 4.5.3); 0 where it has none.
    """

    name: str
    value: Plain | None
    unit: str = ""
    time_s: float = 0.0


class Content(NamedTuple):
    """`problem`: why a payload that is not empty has no values. `cut`: names of texts that were too
    long. `is_more`: there were more than the limit.
    """

    values: list[Found]
    problem: str = ""
    cut: tuple[str, ...] = ()
    is_more: bool = False


def prepare() -> None:
    """Before anything is served: a disk that hangs would hold up the event loop with the import."""
    import decimal  # noqa: F401

    import cbor2  # noqa: F401


def values_of(payload: bytes) -> list[Value]:
    if not payload:
        return [Value("", "(empty)")]
    if found := found_in(payload):
        return found
    text = _text(payload)
    return [Value("", _cut(text or f"0x{payload[:TEXT_LENGTH_MAX].hex()}"))]


def found_in(payload: bytes) -> list[Value]:
    """The values alone: nothing for what is none, and only bytes to look at."""
    return [value for value, _ in timed_in(payload, VALUES_MAX)]


def timed_in(payload: bytes, values_max: int) -> list[Timed]:
    """The same with the time of each, as SenML has it (RFC 8428, 4.5.3); 0 where it has none."""
    if not payload or len(payload) > PAYLOAD_BYTES_MAX:
        return []
    return _listed(lambda: _shown(_found(payload)), values_max)


def content_of(payload: bytes, values_max: int, characters_max: int) -> Content:
    """All values of a reading, with nulls, and what had to be left out."""
    if not payload:
        return Content([])
    if len(payload) > PAYLOAD_BYTES_MAX:
        return Content([], f"{len(payload)} bytes, more than {PAYLOAD_BYTES_MAX}")
    found = _listed(lambda: _found(payload), values_max + 1)
    if not found:
        return Content([], "neither SenML nor JSON, CBOR or text with values")
    cut = tuple(
        each.name
        for each in found
        if isinstance(each.value, str) and len(each.value) > characters_max
    )
    limited = (
        each._replace(
            name=_cut(each.name, characters_max),
            value=_cut(each.value, characters_max) if isinstance(each.value, str) else each.value,
            unit=_cut(each.unit),
        )
        for each in found[:values_max]
    )
    return Content(list(limited), cut=cut, is_more=len(found) > values_max)


def _listed(find: Callable[[], Iterator[Each]], most: int) -> list[Each]:
    """Nothing of what cannot be read."""
    try:
        return list(islice(find(), most))
    except Exception:  # of any type: tags of CBOR make objects of any kind
        return []


def number_text(value: float) -> str:
    """As JSON has it, and as short as it can be: 80 and not 80.0."""
    if isinstance(value, Exact):
        return value.text
    return repr(value).removesuffix(".0")


def json_float(text: str) -> float:
    """For `json.loads`: exact, also where no double is."""
    value = float(text)
    if len(text) <= _SAFE_DIGITS or not isfinite(value):
        return value
    from decimal import Decimal

    return value if Decimal(text) == Decimal(repr(value)) else Exact(text)


def _shown(found: Iterable[Found]) -> Iterator[Timed]:
    for name, value, unit, time_s in found:
        if value is not None:
            shown = _cut(value) if isinstance(value, str) else value
            yield Value(_cut(name), shown, _cut(unit)), time_s


def _found(payload: bytes) -> Iterator[Found]:
    text = _text(payload)
    if text is not None:
        try:
            return _of_document(json.loads(text, parse_float=json_float), _as_it_is)
        except ValueError:
            return iter([Found("", text)])
    import cbor2

    stream = BytesIO(payload)
    document = cbor2.load(stream)
    # Of bytes that are no CBOR the first ones often are a number.
    if stream.read(1):
        return iter(())
    return _of_document(document, partial(_as_written, payload))


def _text(payload: bytes) -> str | None:
    """None for what is not text, a control character apart that ends a line."""
    try:
        text = payload.decode().strip()
    except UnicodeDecodeError:
        return None
    return text if text and all(one.isprintable() or one in "\t\r\n" for one in text) else None


# Numbers

Floats: TypeAlias = Callable[[float], float]


def _as_it_is(value: float) -> float:
    return value


# The initial byte of a CBOR float (RFC 8949, 3.3), its layout, and how many digits tell two apart.
_WIDTHS = ((b"\xf9", ">e", range(3, 6)), (b"\xfa", ">f", range(6, 10)))


def _as_written(payload: bytes, value: float) -> float:
    """The decoder makes a double of each float, whatever its width; the payload still has the
    bytes. The shortest decimal with the same bytes is what the sensor wrote.
    """
    if b"\xfb" + struct.pack(">d", value) in payload:
        return value
    for initial, layout, digits in _WIDTHS:
        if initial not in payload:
            continue
        try:
            written = struct.pack(layout, value)
        except OverflowError:
            continue
        if initial + written in payload:
            return next(
                (
                    shorter
                    for count in digits
                    if struct.pack(layout, shorter := float(f"{value:.{count}g}")) == written
                ),
                value,
            )
    return value


def _of_decimal(value: Decimal) -> float | None:
    from decimal import Decimal

    number = float(value) if value.is_finite() else float("nan")
    if not isfinite(number):
        return None
    return number if Decimal(repr(number)) == value else Exact(str(value))


def _sum(one: float, other: float) -> float:
    """Without what binary fractions would add to it."""
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    from decimal import Decimal

    total = _of_decimal(Decimal(number_text(one)) + Decimal(number_text(other)))
    return one + other if total is None else total


class _NoValue:
    """What is neither a number, a text nor a boolean, nor null."""


_NO_VALUE = _NoValue()


def _plain(value: object, floats: Floats) -> Plain | _NoValue | None:
    """A number, a text or a boolean; None for null and for what is no number."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < _INTEGER_MAX else None
    if isinstance(value, float):
        if not isfinite(value):
            return None
        return value if isinstance(value, Exact) else floats(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return _rare(value)


def _rare(value: object) -> Plain | _NoValue | None:
    """What a tag of CBOR has made."""
    from decimal import Decimal

    if isinstance(value, Decimal):
        return _of_decimal(value)
    if isinstance(value, date):  # tags 0, 1 and 1004
        return value.isoformat()
    return None if type(value).__name__ == "UndefinedType" else _NO_VALUE


# Documents


def _of_document(document: object, floats: Floats) -> Iterator[Found]:
    if _is_pack(document):
        return _of_pack(document, floats)
    return _distinct(_of_plain(document, "", floats, DEPTH_MAX))


def _of_plain(document: object, name: str, floats: Floats, depth: int) -> Iterator[Found]:
    """What is deeper has names joined by dots."""
    items: Iterable[tuple[object, object]]
    if isinstance(document, Mapping):
        items = document.items()
    elif isinstance(document, Sequence) and not isinstance(document, str | bytes):
        items = enumerate(document)
    else:
        value = _plain(document, floats)
        if not isinstance(value, _NoValue):
            yield Found(name, value)
        return
    if depth:
        before = f"{name}." if name else ""
        for key, one in items:
            yield from _of_plain(one, f"{before}{key}", floats, depth - 1)


def _distinct(found: Iterable[Found]) -> Iterator[Found]:
    """A name with a dot may be that of something deeper as well."""
    names: set[str] = set()
    for each in found:
        name, number = each.name, 1
        while name in names:
            number += 1
            name = f"{each.name} ({number})"
        names.add(name)
        yield each._replace(name=name)


# SenML


def _is_pack(document: object) -> bool:
    return (
        isinstance(document, list)
        and bool(document)
        and all(isinstance(record, dict) and record for record in document)
        and any(_named(record).keys() & {"n", "bn", *_VALUE_NAMES} for record in document)
    )


def _named(record: Mapping[Any, Any]) -> dict[str, Any]:
    return {SENML_NAMES.get(key, str(key)): value for key, value in record.items()}


def _of_pack(document: Any, floats: Floats) -> Iterator[Found]:
    records = list(map(_named, document))
    # The base name says which device it is, and is the same in all records of most packs.
    is_one_base = len({str(record["bn"]) for record in records if "bn" in record}) <= 1
    base_unit, base_name = "", ""
    base_value, base_sum, base_time = 0.0, 0.0, 0.0
    for record in records:
        base_name = str(record.get("bn", base_name))
        base_unit = str(record.get("bu", base_unit))
        base_value = _number(record.get("bv"), base_value, floats)
        base_sum = _number(record.get("bs"), base_sum, floats)
        base_time = _number(record.get("bt"), base_time, _as_it_is)
        own_name = str(record.get("n", ""))
        name = (own_name or base_name) if is_one_base else f"{base_name}{own_name}"
        unit = str(record.get("u", base_unit))
        time_s = base_time + _number(record.get("t"), 0.0, _as_it_is)
        for key in (*_VALUE_NAMES, "s"):
            value = _plain(record.get(key, _NO_VALUE), floats)
            if isinstance(value, _NoValue):
                continue
            base = {"v": base_value, "s": base_sum}.get(key)
            if base and isinstance(value, float | int) and not isinstance(value, bool):
                value = _sum(value, base)
            # The unit of a sum is that of the value, times seconds.
            if key != "s":
                yield Found(name, value, unit, time_s)
            else:
                yield Found(f"{name}.sum" if name else "sum", value, "", time_s)


def _number(value: object, default: float, floats: Floats) -> float:
    number = None if isinstance(value, bool) else _plain(value, floats)
    return number if isinstance(number, float | int) else default


def _cut(text: str, length_max: int = TEXT_LENGTH_MAX) -> str:
    text = "".join(one if one.isprintable() else " " for one in text[: length_max + 1])
    return text if len(text) <= length_max else f"{text[: length_max - 3]}..."
