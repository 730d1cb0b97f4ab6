"""Values that get a unit after they were announced without one.

Home Assistant makes statistics of what an entity had in five minutes. If it had no unit in a part
of them and a state class at the end, the statistics have no unit for good, and stop
(`units_changed`). So such a value is announced with its unit at once, and with its state class
`SETTLES_S` later.

Limit: those of the catalogue, which has the values.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, MutableMapping
from math import inf

from gateway.core.state_records import ClientId
from gateway.presence.homeassistant.entities import Entry

SETTLES_S = 400.0  # five minutes, begun on a full hour by another clock, and the time to send


class LateUnits:
    def __init__(self) -> None:
        # By client and key of the entity: until when it has no state class; infinity without unit.
        self._until: dict[ClientId, dict[str, float]] = {}
        self._due_at = inf

    def restore(self, client_id: ClientId, keys: Iterable[str]) -> None:
        """Those that were announced without a unit, or with one for less than `SETTLES_S`."""
        self._until[client_id] = dict.fromkeys(keys, inf)

    def forget(self, client_id: ClientId) -> None:
        self._until.pop(client_id, None)

    def announced(
        self,
        client_id: ClientId,
        entries: MutableMapping[str, Entry],
        numbers: Container[str],
        now: float,
    ) -> tuple[str, ...]:
        """These are announced now: takes state classes out. Returns what `restore` is to have.
        `numbers`: keys of the entities of numbers.
        """
        before, after = self._until.get(client_id, {}), {}
        for key, entry in entries.items():
            if key not in numbers:
                continue
            if "unit_of_measurement" not in entry:
                after[key] = inf
            elif key in before and (until := min(before[key], now + SETTLES_S)) > now:
                after[key] = until
                entry.pop("state_class", None)
                self._due_at = min(self._due_at, until)
        self._until[client_id] = after
        return tuple(after)

    def take_settled(self, now: float) -> list[ClientId]:
        """Those that are to be announced with a state class now."""
        if now < self._due_at:
            return []
        settled = [
            client_id
            for client_id, keys in self._until.items()
            if any(until <= now for until in keys.values())
        ]
        times = (until for keys in self._until.values() for until in keys.values() if until > now)
        self._due_at = min(times, default=inf)
        return settled
