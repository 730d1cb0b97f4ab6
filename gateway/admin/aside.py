"""Readings that are set aside, as the page, the status and `tidegate buffer aside` show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gateway.admin.metrics.metric import counter, exposed, gauge
from gateway.core.mqtt.caution import FILTER, OWN, READING, Caution
from gateway.core.state_records import AsideRecord
from gateway.core.uplink.aside import Aside, reading_of
from gateway.presence.readings import as_json, shown

ASIDE_SCHEMA = "tidegate.buffer.aside/1"
SUBJECTS_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AsideSubject:
    """Readings of one client on one topic, and why the last of them is set aside."""

    client: str
    topic: str
    readings: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AsideNumbers:
    """`set_aside` and `without_room` are since the start. The `blocked_` ones are not sent for a
    while, because the broker has ended the connection for them: `blocked_readings` are pairs of
    client and topic.
    """

    readings: int = exposed(
        0, gauge("tidegate_aside_readings", "Readings set aside, which the broker does not take")
    )
    bytes: int = exposed(0, gauge("tidegate_aside_bytes", "Size of the readings set aside"))
    set_aside: int = exposed(0, counter("tidegate_set_aside_total", "Readings that were set aside"))
    without_room: int = 0
    subjects: tuple[AsideSubject, ...] = ()  # SUBJECTS_MAX of them
    blocked_readings: tuple[tuple[str, str], ...] = ()
    blocked_filters: tuple[str, ...] = ()
    blocked_own_topics: tuple[str, ...] = ()


def aside_numbers(aside: Aside, caution: Caution, now: float) -> AsideNumbers:
    counts: Counter[tuple[str, str]] = Counter()
    reasons: dict[tuple[str, str], str] = {}
    for record in aside.records.values():
        subject = record.client_id, record.topic
        counts[subject] += 1
        reasons[subject] = record.reason
    blocked = [key for key, block in caution.blocked.items() if now < block.until]
    return AsideNumbers(
        readings=len(aside.records),
        bytes=aside.bytes,
        set_aside=aside.set_aside,
        without_room=aside.without_room,
        subjects=tuple(
            AsideSubject(client=one[0], topic=one[1], readings=count, reason=reasons[one])
            for one, count in counts.most_common(SUBJECTS_MAX)
        ),
        blocked_readings=tuple(key[1:] for key in blocked if key[0] == READING and key[2]),
        blocked_filters=tuple(name for kind, _, name in blocked if kind == FILTER),
        blocked_own_topics=tuple(name for kind, _, name in blocked if kind == OWN),
    )


def listed(gateway: str, records: Iterable[AsideRecord]) -> dict[str, Any]:
    """The answer of /api/buffer/aside."""
    return {
        "schema": ASIDE_SCHEMA,
        "gateway": gateway,
        "readings": [record_as_json(gateway, record) for record in records],
    }


def record_as_json(gateway: str, record: AsideRecord) -> dict[str, Any]:
    """As a reading that waits, with its number, when it was set aside (Unix ms) and why."""
    return {
        "number": record.number,
        **as_json(gateway, reading_of(record, 0.0)),
        "shown": shown(record.payload),
        "set_aside_ms": record.set_aside_ms,
        "reason": record.reason,
    }
