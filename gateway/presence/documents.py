"""Presence of a device as JSON: `tidegate/<name>/clients/<id>`. docs/mqtt.md has the fields.

Times are UTC to the second, as ISO 8601 has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gateway.core.session.session import Session
from gateway.core.state_records import ClientId
from gateway.presence.standing import Standing

if TYPE_CHECKING:
    from gateway.presence.catalogue import KnownValue


@dataclass(frozen=True, slots=True)
class RetainedMessage:
    """A retained message; without a payload the broker forgets what it retains there.

    `client_id`: None for what never needs to be cleared. `is_first`: its presence was not published
    since the start. `values`, `components` and `declared`: those that an announcement has.
    `retain`: False of an event. `turn`: of the claim to an announcement (claims.py).
    `without_unit`: keys of numbers that it has without (homeassistant/late_units.py).
    """

    topic: str
    payload: bytes
    client_id: ClientId | None = None
    is_first: bool = False
    values: tuple[KnownValue, ...] = ()
    components: tuple[tuple[str, str], ...] = ()
    declared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    retain: bool = True
    turn: int = 0
    without_unit: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What is recorded of one retained message that the broker may have, by its topic. An empty
    client id: the message is about the gateway. Of an announcement: `values`; `components`, the key
    and platform of each entity; `declared`, names of the commands that the device has declared, by
    topic; the `turn` of the claim to it; `without_unit`, keys of numbers.
    """

    client_id: ClientId
    values: tuple[KnownValue, ...] = ()
    components: tuple[tuple[str, str], ...] = ()
    declared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    turn: int = 0
    without_unit: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """State of a device. Times in the core's seconds; None where they are not known."""

    client_id: ClientId
    standing: Standing
    link: str
    last_received_at: float | None
    until: float | None = None  # when it has announced its next message
    lost_at: float | None = None  # when its tolerance is used up
    is_available: bool = True  # it is here, asleep, or away as it always is
    waiting: int | None = None  # messages for it, if it has commands


def device_of(session: Session, standing: Standing, link: str, started_at: float) -> Device:
    """`started_at`: before that the gateway did not run. What was restored after a restart does not
    say when a device was last heard from.
    """
    last_received_at = session.last_received_at if session.last_received_at > started_at else None
    due_at = session.due_at
    if due_at is None or standing not in (Standing.ASLEEP, Standing.OVERDUE):
        return Device(
            client_id=session.client_id,
            standing=standing,
            link=link,
            last_received_at=last_received_at,
        )
    lost_at = session.last_received_at + session.silence_max_s
    return Device(
        client_id=session.client_id,
        standing=standing,
        link=link,
        last_received_at=last_received_at,
        until=due_at,
        lost_at=lost_at,
    )


def device_json(device: Device, unix_s_at_zero: float) -> bytes:
    def shown(at: float | None) -> str | None:
        return None if at is None else utc(unix_s_at_zero + at)

    document: dict[str, object] = {
        "client": device.client_id,
        "state": device.standing.value,
        "until": shown(device.until),
        "lost_at": shown(device.lost_at),
        "last_seen": shown(device.last_received_at),
        "link": device.link,
        "available": device.is_available,
    }
    if device.waiting is not None:
        document["waiting"] = device.waiting
    return as_json(document)


def as_json(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def utc(unix_s: float) -> str:
    return datetime.fromtimestamp(int(unix_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
