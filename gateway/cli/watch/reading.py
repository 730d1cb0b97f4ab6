"""One message of the broker as `tidegate watch` shows it: who sent it, how old it is, what it says.

What came through a gateway has its delivery tag (docs/mqtt.md), which names the sensor and when the
gateway took the reading on. What anybody else publishes has none: no sensor, and an age only if its
payload has a time. A payload may be anything.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.config.spelling import printable, shortened
from gateway.presence.readings import text_of
from gateway.presence.values import Value, timed_in

VALUES_MAX = 64  # more than any pack that fits a datagram of ours
TEXT_LENGTH_MAX = 500
BYTES_MAX = 32
# RFC 8428, 4.5.3: below that a time counts from now, which is when the gateway took it on.
RELATIVE_S_MAX = 2**28
# Clocks of two machines differ by less, or one of them is wrong.
AHEAD_S_MAX = 60.0
EARLIER_S_MIN = 1.0


@dataclass(frozen=True, slots=True)
class Arrived:
    """A PUBLISH as it came; `properties` are its user properties, `unix_s` is when."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Mapping[str, str]
    unix_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A value, and how long it was measured before the newest of its reading."""

    value: Value
    earlier_s: float


@dataclass(frozen=True, slots=True)
class Reading:
    """`topic` as sensors name it. `client` is None of what came through no gateway, and empty for
    one that is anonymous (QoS -1). `age_s`: since the newest value was measured, as far as the
    payload says so, else since the gateway took the reading on; None if neither is known.
    """

    arrived: Arrived
    topic: str
    client: str | None
    age_s: float | None
    measured: tuple[Measured, ...]


def reading_of(arrived: Arrived, prefix: str = "") -> Reading:
    taken_s = _taken_s(arrived)
    base_s = arrived.unix_s if taken_s is None else taken_s
    timed = timed_in(arrived.payload, VALUES_MAX)
    times = [_unix_s(time_s, base_s) for _, time_s in timed if time_s]
    if taken_s is not None and not all(time_s for _, time_s in timed):
        times.append(taken_s)  # what has no time was measured then
    newest = max((at for at in times if at <= arrived.unix_s + AHEAD_S_MAX), default=taken_s)
    reference_s = base_s if newest is None else newest
    return Reading(
        arrived=arrived,
        topic=arrived.topic.removeprefix(prefix),
        client=arrived.properties.get("client") if "gw" in arrived.properties else None,
        age_s=None if newest is None else max(0.0, arrived.unix_s - newest),
        measured=tuple(
            Measured(value, max(0.0, reference_s - _unix_s(time_s, base_s)) if time_s else 0.0)
            for value, time_s in timed
        ),
    )


def _taken_s(arrived: Arrived) -> float | None:
    """When the gateway took it on."""
    stamp = arrived.properties.get("ts", "")
    if "gw" not in arrived.properties or not stamp.isascii() or not stamp[:15].isdigit():
        return None
    return int(stamp[:15]) / 1000


def _unix_s(time_s: float, base_s: float) -> float:
    return base_s + time_s if time_s < RELATIVE_S_MAX else time_s


def shown(reading: Reading) -> str:
    """What it says, on one line that is safe for a terminal."""
    payload = reading.arrived.payload
    if not payload:
        return "(empty)"
    if reading.measured and not _is_one_text(reading):
        return ", ".join(map(_measured, reading.measured))
    text = text_of(payload)
    if text is not None and "\0" not in text:
        return printable(shortened(text.strip(), TEXT_LENGTH_MAX))
    rest = len(payload) - BYTES_MAX
    more = f"... ({len(payload)} bytes)" if rest > 0 else ""
    return f"0x{payload[:BYTES_MAX].hex()}{more}"


def _is_one_text(reading: Reading) -> bool:
    (value, *others) = (each.value for each in reading.measured)
    return not others and not value.name and isinstance(value.value, str)


def _measured(measured: Measured) -> str:
    from gateway.admin.durations import duration

    name, value, unit = measured.value
    parts = [printable(name), _plain(value), printable(unit)]
    if measured.earlier_s >= EARLIER_S_MIN:
        parts.append(f"({duration(measured.earlier_s)} earlier)")
    return " ".join(part for part in parts if part)


def _plain(value: float | str | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return printable(value)
    return str(value) if isinstance(value, int) else f"{value:.10g}"


def as_json(reading: Reading) -> dict[str, Any]:
    """With the names of the delivery tag, as `tidegate buffer export` has them."""
    arrived, properties = reading.arrived, reading.arrived.properties
    document: dict[str, Any] = {
        "time": round(arrived.unix_s, 3),
        "gw": properties.get("gw"),
        "client": reading.client,
        "epoch": _number(properties.get("epoch")),
        "seq": _number(properties.get("seq")),
        "ts": _number(properties.get("ts")),
        "topic": reading.topic,
        "qos": arrived.qos,
        "retain": arrived.retain,
        "age_s": None if reading.age_s is None else round(reading.age_s, 3),
        "payload": base64.b64encode(arrived.payload).decode(),
        "values": [
            {"name": value.name, "value": value.value, "unit": value.unit, "earlier_s": earlier_s}
            for value, earlier_s in ((each.value, each.earlier_s) for each in reading.measured)
        ],
    }
    text = text_of(arrived.payload)
    return document if text is None else document | {"text": text}


def _number(text: str | None) -> int | None:
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= 20
    return int(text or 0) if is_number else None
