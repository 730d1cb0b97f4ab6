"""The values that each device has, learned from its readings, for Home Assistant's announcements.

A value is identified by the topic and by its name in the reading. Its kind, a number, a boolean or
a text, is learned once: a value that comes as two kinds is a text from then on. Its unit is the
last one that was named; one that comes in more than `UNIT_CHANGES_MAX` units one after the other
has none from then on. So no device can make the gateway announce without end.

A value that its device does not send any more is forgotten: one that was missing in
`ABSENT_READINGS` readings of its topic in a row and for `ABSENT_S`, or whose topic brought nothing
for `ABSENT_TOPIC_S` while others did. Both begin again with each start of the gateway.

Limits: `VALUES_OF_ONE_MAX` values of a device, further ones are not announced; devices are those
that have a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from gateway.core.state_records import ClientId
from gateway.presence.values import Value

VALUES_OF_ONE_MAX = 2048  # more than home_assistant.values_per_device_max can be
UNIT_CHANGES_MAX = 3
# In place of a unit: that of no unit.
UNIT_MIXED = "mixed"
ABSENT_READINGS = 200
ABSENT_S = 24 * 3600.0
ABSENT_TOPIC_S = 30 * 24 * 3600.0


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


_Key = tuple[str, str]


class _Device:
    """What is known of the values of one device, and since when they are missing."""

    __slots__ = ("absent", "heard_at", "known", "unit_changes")

    def __init__(self, known: Iterable[KnownValue] = ()) -> None:
        self.known: dict[_Key, KnownValue] = {(each.topic, each.name): each for each in known}
        # In how many readings of its topic in a row, and since when.
        self.absent: dict[_Key, tuple[int, float]] = {}
        self.heard_at: dict[str, float] = {}  # by topic
        self.unit_changes: dict[_Key, int] = {}

    def learn(self, topic: str, value: Value) -> bool:
        name, kind, unit = value.name, _kind_of(value.value), value.unit
        key = (topic, name)
        self.absent.pop(key, None)
        before = self.known.get(key)
        if before is None:
            if len(self.known) >= VALUES_OF_ONE_MAX:
                return False
            self.known[key] = KnownValue(topic=topic, name=name, kind=kind, unit=unit)
            return True
        if before.kind is not kind:
            kind = Kind.TEXT
        after = before._replace(kind=kind, unit=self._unit(key, before.unit, unit))
        self.known[key] = after
        return after != before

    def _unit(self, key: _Key, before: str, after: str) -> str:
        if not after or after == before or before == UNIT_MIXED:
            return before
        if not before:
            return after
        changes = self.unit_changes[key] = self.unit_changes.get(key, 0) + 1
        return after if changes <= UNIT_CHANGES_MAX else UNIT_MIXED

    def forget_absent(self, topic: str, names: Iterable[str], at: float) -> bool:
        """`names`: the values of a reading on that topic. Whether any is forgotten."""
        present = set(names)
        gone: list[_Key] = []
        self.heard_at[topic] = at
        for key in self.known:
            if key[0] != topic:
                if at - self.heard_at.setdefault(key[0], at) >= ABSENT_TOPIC_S:
                    gone.append(key)
            elif key[1] not in present:
                count, since = self.absent.get(key, (0, at))
                self.absent[key] = (count + 1, since)
                if count + 1 >= ABSENT_READINGS and at - since >= ABSENT_S:
                    gone.append(key)
        for key in gone:
            del self.known[key]
            self.absent.pop(key, None)
            self.unit_changes.pop(key, None)
        return bool(gone)


class Catalogue:
    def __init__(self) -> None:
        self._of: dict[ClientId, _Device] = {}

    def of(self, client_id: ClientId) -> list[KnownValue]:
        device = self._of.get(client_id)
        return [] if device is None else list(device.known.values())

    def learn(
        self,
        client_id: ClientId,
        topic: str,
        values: Sequence[Value],
        at: float = 0.0,
        unknown: Iterable[str] = (),
    ) -> bool:
        """Whether anything is another than before. `at`: when the reading came, in seconds;
        `unknown`: names that came as null.
        """
        device = self._of.setdefault(client_id, _Device())
        news = [device.learn(topic, each) for each in values]
        is_less = device.forget_absent(topic, (*(each.name for each in values), *unknown), at)
        return any(news) or is_less

    def restore(self, known: Mapping[ClientId, Iterable[KnownValue]]) -> None:
        """The values that were known before the restart."""
        for client_id, values in known.items():
            self._of[client_id] = _Device(values)

    def forget(self, client_id: ClientId) -> None:
        self._of.pop(client_id, None)


def _kind_of(value: float | str | bool) -> Kind:
    if isinstance(value, bool):
        return Kind.BOOLEAN
    return Kind.TEXT if isinstance(value, str) else Kind.NUMBER
