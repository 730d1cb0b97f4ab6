"""What a payload says, as names and values to look at.

A payload may be anything: SenML (RFC 8428) in JSON or CBOR, plain JSON or CBOR, a number
or a text as it stands; anything else is shown as bytes. Whatever it is, this never raises, and
what is made of it is bounded: VALUES_MAX values, names and texts of TEXT_LENGTH_MAX.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from itertools import islice
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

from gateway.presence.readings import SENML_NAMES

VALUES_MAX = 8
TEXT_LENGTH_MAX = 60
PAYLOAD_BYTES_MAX = 16 * 1024  # beyond that nobody reads it as values
_VALUE_NAMES = ("v", "vs", "vb", "vd")

Plain: TypeAlias = float | str | bool


class Value(NamedTuple):
    """`unit` as SenML has it, or empty."""

    name: str
    value: Plain
    unit: str = ""


Timed: TypeAlias = tuple[Value, float]


def prepare() -> None:
    """Before anything is served: a disk that hangs would hold up the event loop with the import."""
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
    try:
        return list(islice(_values(payload), values_max))
    except Exception:  # of any type: tags of CBOR make objects of any kind
        return []


def _values(payload: bytes) -> Iterator[Timed]:
    text = _text(payload)
    if text is not None:
        try:
            return _of_document(json.loads(text))
        except ValueError:
            return iter([(Value("", _cut(text)), 0.0)])
    import cbor2

    stream = BytesIO(payload)
    document = cbor2.load(stream)
    # Of bytes that are no CBOR the first ones often are a number.
    return _of_document(document) if not stream.read(1) else iter(())


def _text(payload: bytes) -> str | None:
    """None for what is not text, a control character apart that ends a line."""
    try:
        text = payload.decode().strip()
    except UnicodeDecodeError:
        return None
    return text if text and all(one.isprintable() or one in "\t\r\n" for one in text) else None


def _of_document(document: object) -> Iterator[Timed]:
    return _of_pack(document) if _is_pack(document) else _without_times(_of_plain(document))


def _without_times(values: Iterable[Value]) -> Iterator[Timed]:
    return ((value, 0.0) for value in values)


def _of_plain(document: object) -> Iterator[Value]:
    if isinstance(document, Mapping):
        return _of_mapping(document, "")
    if isinstance(document, list):
        return (
            Value(str(number), each)
            for number, one in enumerate(document)
            if (each := _plain(one)) is not None
        )
    single = _plain(document)
    return iter([] if single is None else [Value("", single)])


def _of_mapping(mapping: Mapping[Any, Any], before: str) -> Iterator[Value]:
    """One level deeper, names are joined by a dot; below that nothing is shown."""
    for key, one in mapping.items():
        name = _cut(f"{before}{key}")
        value = _plain(one)
        if value is not None:
            yield Value(name, value)
        elif isinstance(one, Mapping) and not before:
            yield from _of_mapping(one, f"{name}.")


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


def _of_pack(document: Any) -> Iterator[Timed]:
    base_unit, base_value, base_name, base_time = "", 0.0, "", 0.0
    for record in map(_named, document):
        base_name = str(record.get("bn", base_name))
        base_unit = str(record.get("bu", base_unit))
        base_value = float(record.get("bv", base_value))
        base_time = _seconds(record.get("bt"), base_time)
        for key in _VALUE_NAMES:
            value = _plain(record.get(key))
            if value is None:
                continue
            if key == "v" and isinstance(value, float):
                value += base_value
            # The base name says which device it is, and is the same in all records of most packs.
            name = str(record.get("n", "")) or base_name
            time_s = base_time + _seconds(record.get("t"), 0.0)
            yield Value(_cut(name), value, _cut(str(record.get("u", base_unit)))), time_s


def _seconds(value: object, default: float) -> float:
    number = _plain(value)
    return number if isinstance(number, float) else default


def _plain(value: object) -> Plain | None:
    """A number, a text or a boolean; nothing else is shown as a value."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        number = float(value)
        return number if isfinite(number) else None
    if isinstance(value, bytes):
        return _cut(f"0x{value[:TEXT_LENGTH_MAX].hex()}")
    return _cut(value) if isinstance(value, str) else None


def _cut(text: str) -> str:
    text = "".join(one if one.isprintable() else " " for one in text[: TEXT_LENGTH_MAX + 1])
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[: TEXT_LENGTH_MAX - 3]}..."
