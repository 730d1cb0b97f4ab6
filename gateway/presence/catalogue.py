"""The values that each device has, learned from its readings, for Home Assistant's announcements.

A value is identified by the topic and by its name in the reading. Its kind, a number, a boolean or
a text, and its unit are learned once: a value that comes as two kinds is a text from then on, and
the first unit that is named stays. So no device can make the gateway announce without end.

Limits: `VALUES_OF_ONE_MAX` values of a device, further ones are not announced; devices are those
that have a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from gateway.core.state_records import ClientId
from gateway.presence.values import Value

VALUES_OF_ONE_MAX = 2048  # more than home_assistant.values_per_device_max can be


class Kind(Enum):
    NUMBER = "number"
    BOOLEAN = "truth"
    TEXT = "text"


class KnownValue(NamedTuple):
    """`unit` as SenML has it, or empty."""

    topic: str
    name: str
    kind: Kind
    unit: str = ""


class Catalogue:
    def __init__(self) -> None:
        self._of: dict[ClientId, dict[tuple[str, str], KnownValue]] = {}

    def of(self, client_id: ClientId) -> list[KnownValue]:
        return list(self._of.get(client_id, {}).values())

    def learn(self, client_id: ClientId, topic: str, values: Iterable[Value]) -> bool:
        """Whether anything of it is new."""
        known = self._of.setdefault(client_id, {})
        is_new = False
        for name, value, unit in values:
            before = known.get((topic, name))
            after = _joined(
                before, KnownValue(topic=topic, name=name, kind=_kind_of(value), unit=unit)
            )
            if after == before or (before is None and len(known) >= VALUES_OF_ONE_MAX):
                continue
            known[topic, name] = after
            is_new = True
        return is_new

    def restore(self, known: Mapping[ClientId, Iterable[KnownValue]]) -> None:
        """The values that were known before the restart."""
        for client_id, values in known.items():
            self._of[client_id] = {(each.topic, each.name): each for each in values}

    def forget(self, client_id: ClientId) -> None:
        self._of.pop(client_id, None)


def _joined(before: KnownValue | None, after: KnownValue) -> KnownValue:
    if before is None:
        return after
    kind = before.kind if before.kind is after.kind else Kind.TEXT
    return before._replace(kind=kind, unit=before.unit or after.unit)


def _kind_of(value: float | str | bool) -> Kind:
    if isinstance(value, bool):
        return Kind.BOOLEAN
    return Kind.TEXT if isinstance(value, str) else Kind.NUMBER
