"""What Home Assistant is to be told, and what it was told already.

A device is announced when its presence was told for the first time in a connection, when a value of
it is new, and when Home Assistant says that it was born. Its values are said behind that, and when
it was heard; the last of them only, however many came meanwhile.

Limits: those of the catalogue; one entry for each device in each queue.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence

from gateway.core.effects import ClientId
from gateway.presence.catalogue import Catalogue
from gateway.presence.documents import Notice, as_json
from gateway.presence.entries import LedgerEntry
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments
from gateway.presence.values import Value

# What a device says, by the topic of its reading.
Values = Mapping[str, Sequence[Value]]


class Announcements:
    def __init__(
        self, announcer: DiscoveryDocuments, values_of: Callable[[ClientId], Values]
    ) -> None:
        self._announcer = announcer
        self._values_of = values_of
        self._catalogue = Catalogue()
        self._announced: set[ClientId] = set()
        self._to_announce: OrderedDict[ClientId, None] = OrderedDict()
        self._values_due: OrderedDict[ClientId, None] = OrderedDict()
        self._is_gateway_due = True

    # From a former life

    def topics_of(self, client_id: ClientId) -> tuple[str, ...]:
        """Where it may have said something of this device; without one of the gateway."""
        if not client_id:
            return (self._announcer.topic_of_gateway,)
        return self._announcer.topic_of(client_id), self._announcer.topics.values(client_id)

    def restore(self, entry: LedgerEntry) -> None:
        """What was learned of a device then."""
        self._catalogue.restore({entry.client_id: entry.values})

    # From the connection

    def connected(self) -> None:
        """Devices follow when their presence was told."""
        self._announced.clear()
        self._to_announce.clear()
        self._is_gateway_due = True

    def born(self) -> None:
        """Home Assistant has started: it is told of everything that was announced before."""
        self._is_gateway_due = True
        self._to_announce.update((each, None) for each in self._announced)

    # From the board and the sensors

    def told_of(self, client_id: ClientId) -> None:
        """Its presence is at the broker."""
        if client_id not in self._announced:
            self._to_announce[client_id] = None

    def forget(self, client_id: ClientId) -> list[Notice]:
        """Announcement first: Home Assistant must not read what is being cleared."""
        self._catalogue.forget(client_id)
        self._announced.discard(client_id)
        self._to_announce.pop(client_id, None)
        self._values_due.pop(client_id, None)
        return [Notice(topic, b"", client_id) for topic in self.topics_of(client_id)]

    def heard(self, client_id: ClientId, topic: str, values: Iterable[Value]) -> None:
        """What a reading says."""
        self._values_due[client_id] = None
        if self._catalogue.learn(client_id, topic, values) and client_id in self._announced:
            self._to_announce[client_id] = None

    # From those who show

    @property
    def announced(self) -> int:
        return len(self._announced)

    @property
    def waiting(self) -> int:
        return len(self._to_announce) + len(self._values_due)

    # Saying

    def next_announcement(self) -> Notice | None:
        announcer = self._announcer
        if self._is_gateway_due:
            self._is_gateway_due = False
            topic = announcer.topic_of_gateway
            return Notice(topic, announcer.gateway_device(), ClientId(""))
        if not self._to_announce:
            return None
        client_id, _ = self._to_announce.popitem(last=False)
        self._announced.add(client_id)
        self._values_due[client_id] = None
        values = self._catalogue.of(client_id)
        document = announcer.device(client_id, values)
        return Notice(announcer.topic_of(client_id), document, client_id, values=tuple(values))

    def next_values(self) -> Notice | None:
        while self._values_due:
            client_id, _ = self._values_due.popitem(last=False)
            values = self._values_of(client_id)
            said = {
                topic: {each.name: each.value for each in heard} for topic, heard in values.items()
            }
            if said and client_id in self._announced:
                topic = self._announcer.topics.values(client_id)
                return Notice(topic, as_json(said), client_id)
        return None
