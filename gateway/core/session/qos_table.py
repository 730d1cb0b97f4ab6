"""QoS by name: of a client's filters, of a filter's clients.

Mostly there is one or none, and 100,000 sleepers with a filter each have 200,000 of these. So a
dictionary, which is 184 bytes, is made for the second one.

A name is text or a `ClientId`, and comes out as it was put in. The table is not generic, as each
would be 16 bytes larger for that, compiled.

Bounded by who keeps it: filters of a client, clients of the gateway.
"""

from __future__ import annotations

from typing import Any


class QosTable:
    __slots__ = ("_many", "_one", "_qos_of_one")

    def __init__(self) -> None:
        self._one: str | None = None
        self._qos_of_one = 0
        self._many: dict[str, int] | None = None  # from the second one on, all of them

    def __len__(self) -> int:
        if self._many is not None:
            return len(self._many)
        return self._one is not None

    def __contains__(self, name: str) -> bool:
        return name == self._one if self._many is None else name in self._many

    def items(self) -> list[tuple[Any, int]]:
        if self._many is not None:
            return list(self._many.items())
        return [] if self._one is None else [(self._one, self._qos_of_one)]

    def put(self, name: str, qos: int) -> None:
        if self._many is not None:
            self._many[name] = qos
        elif self._one is None or self._one == name:
            self._one, self._qos_of_one = name, qos
        else:
            self._many = {self._one: self._qos_of_one, name: qos}
            self._one = None

    def pop(self, name: str) -> bool:
        """Whether it was there."""
        if self._many is not None:
            return self._many.pop(name, None) is not None
        if self._one != name:
            return False
        self._one = None
        return True
