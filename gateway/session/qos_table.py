"""QoS by name: of a client's filters, of a filter's clients.

Mostly there is one or none, and 100,000 sleepers with a filter each have 200,000 of these. So a
dictionary, which is 184 octets, is made for the second one.

Bounded by who keeps it: filters of a client, clients of the gateway.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Name = TypeVar("Name", bound=str)


class QosTable(Generic[Name]):
    __slots__ = ("_many", "_one", "_qos_of_one")

    def __init__(self) -> None:
        self._one: Name | None = None
        self._qos_of_one = 0
        self._many: dict[Name, int] | None = None  # from the second one on, all of them

    def __len__(self) -> int:
        if self._many is not None:
            return len(self._many)
        return self._one is not None

    def __contains__(self, name: Name) -> bool:
        return name == self._one if self._many is None else name in self._many

    def items(self) -> list[tuple[Name, int]]:
        if self._many is not None:
            return list(self._many.items())
        return [] if self._one is None else [(self._one, self._qos_of_one)]

    def put(self, name: Name, qos: int) -> None:
        if self._many is not None:
            self._many[name] = qos
        elif self._one is None or self._one == name:
            self._one, self._qos_of_one = name, qos
        else:
            self._many = {self._one: self._qos_of_one, name: qos}
            self._one = None

    def pop(self, name: Name) -> bool:
        """Whether it was there."""
        if self._many is not None:
            return self._many.pop(name, None) is not None
        if self._one != name:
            return False
        self._one = None
        return True
