"""What is to be published for Home Assistant, and what was published already.

A device is announced when its presence is published for the first time in a connection, when a
value of it is new or another than before, and when Home Assistant sends its birth message. Its
values are published after that, and when a reading was received; only the last of them, however
many came meanwhile.

What an announcement no longer has, or has on another platform, must be taken back: Home Assistant
keeps an entity until its key comes with the platform alone. So one announcement has that, and the
next one is without it.

Limits: those of the catalogue; one entry for each device in each queue; `LOGGED_MAX` lines about
what the operator has set and a value or a command cannot have, each once; `TOPICS_MAX` topics on
which a device declares commands (declared_commands.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence

from gateway.core.state_records import ClientId
from gateway.presence.catalogue import Catalogue, Kind
from gateway.presence.claims import Claim
from gateway.presence.documents import LedgerEntry, RetainedMessage
from gateway.presence.homeassistant.declared_commands import (
    TOPICS_MAX,
    Declared,
    has_version,
    unknown_of,
    versions_in,
)
from gateway.presence.homeassistant.discovery_documents import (
    DeviceDocument,
    DiscoveryDocuments,
    components_of,
    key_of,
)
from gateway.presence.homeassistant.entities import Entry
from gateway.presence.homeassistant.identities import Identities
from gateway.presence.homeassistant.late_units import LateUnits
from gateway.presence.last_values import Received

LOGGED_MAX = 1000


class Announcements:
    def __init__(
        self,
        documents: DiscoveryDocuments,
        values_of: Callable[[ClientId], bytes],
        watch: Callable[[ClientId, Mapping[str, str]], None] = lambda *_: None,
        identities: Identities | None = None,
    ) -> None:
        """`values_of`: the document of a device's last values; empty without any. `watch`: is told
        the names of a device's commands, by their topics. `identities`: with other gateways of the
        broker; without, each device has the usual id.
        """
        self.identities = identities
        self._claimed: dict[ClientId, Claim] = {}  # published in this connection
        self._documents = documents
        self._values_of = values_of
        self._watch = watch
        self._catalogue = Catalogue()
        # Of each device: the platforms of its entities by their keys, as announced last.
        self._components: dict[ClientId, dict[str, str]] = {}
        # The commands that it has declared itself, by topic.
        self._declared: dict[ClientId, dict[str, tuple[str, ...]]] = {}
        # Versions of those, as announced last.
        self._versions: dict[ClientId, dict[str, str]] = {}
        self._late_units = LateUnits()
        self._logged: set[str] = set()
        self._to_log: list[str] = []
        self._announced: set[ClientId] = set()
        self._to_announce: OrderedDict[ClientId, None] = OrderedDict()
        self._values_due: OrderedDict[ClientId, None] = OrderedDict()
        self._is_gateway_due = True

    # Restore after a restart

    def topics_of(self, client_id: ClientId) -> tuple[str, ...]:
        """Topics of this device's messages; without a client id those of the gateway."""
        if not client_id:
            return (self._documents.topic_of_gateway,)
        topics = self._documents.topics
        announcement = self._documents.topic_of(client_id)
        if self.identities is None:
            return announcement, topics.values(client_id)
        return announcement, topics.values(client_id), topics.announced(client_id)

    def restore_ids(
        self, found: Mapping[str, LedgerEntry], has_session: Callable[[ClientId], bool]
    ) -> None:
        """The ids under which devices were announced before the restart; by topic."""
        for topic, entry in found.items():
            if entry.client_id and has_session(entry.client_id):
                self._documents.keep_id(entry.client_id, topic)

    def restore(self, topic: str, entry: LedgerEntry) -> None:
        """The values of a device, as they were known before the restart."""
        if topic == self._documents.topic_of_gateway:
            self._components[ClientId("")] = dict(entry.components)
        if entry.client_id and topic == self._documents.topic_of(entry.client_id):
            self._catalogue.restore({entry.client_id: entry.values})
            self._components[entry.client_id] = dict(entry.components)
            self._late_units.restore(entry.client_id, entry.without_unit)
            if entry.declared:
                self._declared[entry.client_id] = dict(entry.declared)
            if self.identities is not None:
                self.identities.restore(entry.client_id, topic, entry.turn)

    # From the connection

    def connected(self) -> None:
        """Devices follow when their presence is published."""
        self._announced.clear()
        self._claimed.clear()
        self._to_announce.clear()
        self._is_gateway_due = True

    def announce_all(self) -> None:
        """Home Assistant has started: everything that was announced is announced again."""
        self._is_gateway_due = True
        self._to_announce.update((each, None) for each in self._announced)

    # From presence and readings

    def presence_published(self, client_id: ClientId) -> None:
        """Its presence is at the broker."""
        if client_id not in self._announced:
            self._to_announce[client_id] = None

    def forget(self, client_id: ClientId) -> list[RetainedMessage]:
        """Announcement first: Home Assistant must not read what is being cleared."""
        topics = self.topics_of(client_id)
        self._catalogue.forget(client_id)
        self._components.pop(client_id, None)
        self._declared.pop(client_id, None)
        self._versions.pop(client_id, None)
        self._late_units.forget(client_id)
        self._watch(client_id, {})
        self._documents.forget(client_id)
        if self.identities is not None:
            self.identities.forget(client_id)
        self._claimed.pop(client_id, None)
        self._announced.discard(client_id)
        self._to_announce.pop(client_id, None)
        self._values_due.pop(client_id, None)
        return [RetainedMessage(topic, b"", client_id) for topic in topics]

    def keep_id(self, client_id: ClientId, topic: str) -> None:
        """It was announced there in a previous run."""
        self._documents.keep_id(client_id, topic)

    def announce_again(self, client_ids: Iterable[ClientId]) -> None:
        """With their claims: other gateways did something."""
        for client_id in client_ids:
            self._claimed.pop(client_id, None)
            self._to_announce[client_id] = None

    def learn(self, received: Received, at: float) -> None:
        """Which values there are, as of `at` in seconds."""
        client_id, topic, values, unknown = received
        is_other = self._catalogue.learn(client_id, topic, values, at, unknown)
        declared = self._declared.get(client_id, {})
        if has_version(topic, (each.name for each in values), declared):
            is_other |= self._versions.get(client_id) != self._versions_of(client_id, declared)
        if is_other and client_id in self._announced:
            self._to_announce[client_id] = None

    def declare(self, client_id: ClientId, topic: str, names: Sequence[str]) -> None:
        """A device says which commands it takes (declared_commands.py)."""
        declared = self._declared.setdefault(client_id, {})
        if declared.get(topic, ()) == names or (
            topic not in declared and len(declared) >= TOPICS_MAX
        ):
            return
        declared[topic] = tuple(names)
        for name in unknown_of(names):
            self._log_once(
                f"{client_id}: {topic!r} declares {name!r}, which is no command known here"
            )
        if client_id in self._announced:
            self._to_announce[client_id] = None

    def publish(self, client_id: ClientId) -> None:
        """The values of a device are to be published."""
        self._values_due[client_id] = None

    def is_announced(self, client_id: ClientId) -> bool:
        """In this connection."""
        return client_id in self._announced

    # For status and metrics

    @property
    def announced(self) -> int:
        return len(self._announced)

    @property
    def waiting(self) -> int:
        return len(self._to_announce) + len(self._values_due)

    # Messages

    def next_announcement(self, now: float = 0.0) -> RetainedMessage | None:
        if self._is_gateway_due:
            return self._gateway_announcement()
        for client_id in self._late_units.take_settled(now):
            if client_id in self._announced:
                self._to_announce[client_id] = None
        while self._to_announce:
            client_id, _ = self._to_announce.popitem(last=False)
            if self.identities is None:
                return self._announcement(client_id, 0, now)
            claim = self.identities.decide(client_id, now)
            if claim is None:
                continue
            self._documents.keep_id(client_id, claim.topic)
            if self._claimed.get(client_id) == claim:
                return self._announcement(client_id, claim.turn, now)
            self._claimed[client_id] = claim
            self._to_announce[client_id] = None
            self._to_announce.move_to_end(client_id, last=False)
            topic = self._documents.topics.announced(client_id)
            return RetainedMessage(topic, claim.payload, client_id)
        return None

    def _gateway_announcement(self) -> RetainedMessage:
        documents = self._documents
        entries = documents.gateway_entries()
        components, self._is_gateway_due = self._take_back(ClientId(""), entries)
        return RetainedMessage(
            documents.topic_of_gateway,
            documents.gateway_document(entries),
            ClientId(""),
            components=tuple(components.items()),
        )

    def _take_back(
        self, client_id: ClientId, entries: dict[str, Entry]
    ) -> tuple[dict[str, str], bool]:
        """Adds what the announcement before this one had, and this one has not. Returns what is
        there then, and whether another announcement must follow.
        """
        components, is_any = components_of(entries), False
        for key, platform in self._components.get(client_id, {}).items():
            if components.get(key) != platform:
                entries[key] = {"platform": platform}
                components.pop(key, None)
                is_any = True
        self._components[client_id] = components
        return components, is_any

    def _announcement(self, client_id: ClientId, turn: int, now: float) -> RetainedMessage:
        self._announced.add(client_id)
        self._values_due[client_id] = None
        documents, values = self._documents, self._catalogue.of(client_id)
        declared = self._declared.get(client_id, {})
        device = documents.entries(client_id, values, declared)
        self._report(client_id, device)
        self._watch(client_id, device.command_topics)
        entries: dict[str, Entry] = dict(device.entries)
        components, is_any = self._take_back(client_id, entries)
        if is_any:
            self._to_announce[client_id] = None
        self._versions[client_id] = self._versions_of(client_id, declared)
        numbers = {key_of(each) for each in values if each.kind is Kind.NUMBER}
        without_unit = self._late_units.announced(client_id, entries, numbers, now)
        return RetainedMessage(
            documents.topic_of(client_id),
            documents.document(client_id, entries, self._versions[client_id]),
            client_id,
            values=tuple(values),
            components=tuple(components.items()),
            declared=tuple(declared.items()),
            turn=turn,
            without_unit=without_unit,
        )

    def _versions_of(self, client_id: ClientId, declared: Declared) -> dict[str, str]:
        return versions_in(self._values_of(client_id), declared) if declared else {}

    def take_lines(self) -> list[str]:
        """What is to be logged since the last call."""
        lines, self._to_log = self._to_log, []
        return lines

    def take_notes(self) -> list[str]:
        """What became of devices that other gateways know as well, since the last call."""
        return [] if self.identities is None else self.identities.take_notes()

    def _report(self, client_id: ClientId, device: DeviceDocument) -> None:
        for name, why in device.left_out:
            line = f"{client_id}: {name!r} is announced without {why}"
            self._log_once(f"{line}; see [[home_assistant_value]]")
        for name, why in device.notes:
            self._log_once(
                f"{client_id}: the command {name!r}: {why}; see [[home_assistant_command]]"
            )

    def _log_once(self, line: str) -> None:
        if line not in self._logged and len(self._logged) < LOGGED_MAX:
            self._logged.add(line)
            self._to_log.append(line)

    def next_values(self) -> RetainedMessage | None:
        while self._values_due:
            client_id, _ = self._values_due.popitem(last=False)
            document = self._values_of(client_id)
            if document and client_id in self._announced:
                topic = self._documents.topics.values(client_id)
                return RetainedMessage(topic, document, client_id)
        return None
