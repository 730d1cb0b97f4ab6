"""Discovery documents for Home Assistant: one retained message for each device, with its values.

Home Assistant cannot read SenML in CBOR, so values come from `tidegate/<name>/values/<id>`, where
the gateway publishes them as JSON. Availability comes from the device's presence: one that sleeps,
or is overdue within its tolerance, is available; one that is lost is not, and none is while the
gateway itself is offline. `expire_after` is not used: it would make a sleeper unavailable, as it
does not know how long the device sleeps. A value that expires is null in the gateway's document.

A device's id has the name that the gateway had when it was announced first (`keep_id`): in Home
Assistant another id is another device, without its names and history.

Form and limits are those of Home Assistant 2026.2 (`components/mqtt/schemas.py`); tests check the
documents against them. What a value is stands in entities.py, docs/home_assistant.md is for users.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from gateway.presence.catalogue import KnownValue
from gateway.presence.documents import as_json
from gateway.presence.homeassistant.commands import (
    CommandEntity,
    CommandOptions,
    commands_for,
    entity_of_command,
    in_words,
    label_of,
    plain_label,
)
from gateway.presence.homeassistant.declared_commands import Declared, commands_of, is_declaration
from gateway.presence.homeassistant.entities import (
    Entity,
    Entry,
    entity_of,
    event_of,
    is_template,
    trigger_of,
)
from gateway.presence.homeassistant.overrides import DeviceOptions, ValueOptions
from gateway.presence.standing import Standing
from gateway.presence.topics import (
    LOG_LEVEL,
    NO_CONNECTION,
    PERMIT_JOINING,
    RESTART,
    Topics,
    announcement,
    plain_name,
    usual_device_id,
)

MANUFACTURER = "Tidegate"
# Behind the key of a value; no byte of UTF-8 is ff, so no key of one ends so.
EVENT = "_ffevent"
TRIGGER = "_fftrigger-"  # and what happens
_TOPIC = re.compile(r"(?P<prefix>.+)/device/(?P<id>tidegate_[A-Za-z0-9_-]+)/config")


def key_of(known: KnownValue) -> str:
    """Of the entity of a value, within its device."""
    return plain_name(f"{known.topic} {known.name}")


def components_of(entries: Mapping[str, Entry]) -> dict[str, str]:
    return {key: str(entry["platform"]) for key, entry in entries.items()}


@dataclass(frozen=True, slots=True)
class DeviceDocument:
    """`components`: platform by key. `left_out`: by the value's name, why it is not as the operator
    has set it. `command_topics`: names of commands by their topics, as the device names these.
    `notes`: by a command's name, what is wrong with it.
    """

    entries: Mapping[str, Entry]
    left_out: Sequence[tuple[str, str]] = ()
    command_topics: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class DiscoveryDocuments:
    """`has_stats`: there are statistics to show for the gateway itself. `page_url`: that of the
    status page, if others than this machine can open it. `takes_commands`: the gateway itself does.
    `has_joining`: only listed devices may come in, and others join.
    """

    topics: Topics
    prefix: str
    gateway: str
    version: str
    value_options: Sequence[ValueOptions] = ()
    has_stats: bool = True
    page_url: str | None = None
    takes_commands: bool = False
    log_levels: Sequence[str] = ()
    has_joining: bool = False
    device_options: Sequence[DeviceOptions] = ()
    command_options: Sequence[CommandOptions] = ()
    topic_prefix: str = ""
    kept_ids: dict[str, str] = field(default_factory=dict)

    def topic_of(self, client_id: str) -> str:
        return self._topic(self._device_id(client_id))

    @property
    def topic_of_gateway(self) -> str:
        return self._topic(self._gateway_id)

    def keep_id(self, client_id: str, topic: str) -> None:
        """The device was announced at this topic."""
        found = _TOPIC.fullmatch(topic)
        if found is not None and found["prefix"] == self.prefix:
            self.kept_ids[client_id] = found["id"]

    def forget(self, client_id: str) -> None:
        """Should it come back, it is another one."""
        self.kept_ids.pop(client_id, None)

    def device(self, client_id: str, values: Iterable[KnownValue]) -> bytes:
        return self.document(client_id, self.entries(client_id, values).entries)

    def entries(
        self, client_id: str, values: Iterable[KnownValue], declared: Declared | None = None
    ) -> DeviceDocument:
        """What a device has: an entity for each command, one for each value that is not hidden nor
        the state of a command, and two of its own, or three.
        """
        device_id = self._device_id(client_id)
        values, declared = list(values), declared or {}
        commands, notes = self._commands(client_id, values, declared)
        of_commands = {each for command in commands for each in command.shows}
        shown = [
            (known, options)
            for known in values
            if ((options := self._options(client_id, known)) is None or not options.hide)
            and (known.topic, known.name) not in of_commands
            and not (known.topic in declared and is_declaration(known.name))
        ]
        labels = _labels(shown)
        entries: dict[str, Entry] = {}
        left_out: list[tuple[str, str]] = []
        with_triggers: set[str] = set()  # of one label Home Assistant takes one set of them
        for (known, options), label in zip(shown, labels, strict=True):
            key = key_of(known)
            entity = entity_of(known, options)
            entries[key] = self._value(device_id, key, client_id, label, entity)
            event = event_of(known, options)
            if event is not None:
                topic = self.topics.events(client_id)
                entries[f"{key}{EVENT}"] = event | {
                    "unique_id": f"{device_id}_{key}{EVENT}",
                    "name": label,
                    "state_topic": topic,
                }
                listed = () if options is None or label in with_triggers else options.options
                for each in listed or ():
                    if is_template(topic) or is_template(each):
                        continue  # Home Assistant would run it
                    trigger = trigger_of(known, label, each)
                    entries[f"{key}{TRIGGER}{plain_name(each)}"] = trigger | {"topic": topic}
                with_triggers.add(label)
            left_out += [(known.name or known.topic, each) for each in entity.left_out]
        where = self.topics.client(client_id)
        entries["standing"] = self._of_gateway(
            device_id,
            "standing",
            platform="sensor",
            name="State",
            device_class="enum",
            options=[each.value for each in Standing],
            state_topic=where,
            value_template=_member("state"),
        )
        entries["last_seen"] = self._of_gateway(
            device_id,
            "last_seen",
            platform="sensor",
            name="Last seen",
            device_class="timestamp",
            state_topic=where,
            value_template=_member("last_seen"),
        )
        self._add_commands(entries, client_id, commands)
        topics = {each.topic: each.command.name for each in commands}
        return DeviceDocument(entries, left_out, topics, notes)

    def _commands(
        self, client_id: str, values: Sequence[KnownValue], declared: Declared
    ) -> tuple[list[CommandEntity], list[tuple[str, str]]]:
        """With what is wrong with them, by their names."""
        values_topic = self.topics.values(client_id)
        found: list[CommandEntity] = []
        notes: list[tuple[str, str]] = []
        for command in commands_for(client_id, self.command_options, commands_of(declared)):
            entity = entity_of_command(command, client_id, values, values_topic, self.topic_prefix)
            if entity is None:
                notes.append((command.name, "the client id has + or #, so it makes no topic"))
                continue
            found.append(entity)
            if entity.note is not None:
                notes.append((command.name, entity.note))
        return found, notes

    def _add_commands(
        self, entries: dict[str, Entry], client_id: str, commands: Sequence[CommandEntity]
    ) -> None:
        device_id = self._device_id(client_id)
        labels = [plain_label(each.command) for each in commands]
        for each in commands:
            key = each.command.key
            entries[key] = each.entry | {
                "unique_id": f"{device_id}_{key}",
                "name": label_of(each.command, labels),
            }
        if commands:
            entries["waiting"] = self._of_gateway(
                device_id,
                "waiting",
                platform="sensor",
                name="Commands waiting",
                state_class="measurement",
                state_topic=self.topics.client(client_id),
                value_template=_WAITING,
            )

    def document(
        self,
        client_id: str,
        components: Mapping[str, Entry],
        versions: Mapping[str, str] | None = None,
    ) -> bytes:
        """`versions`: of its firmware and hardware, as the device has them (versions_in)."""
        device_id = self._device_id(client_id)
        fitting = (each for each in self.device_options if each.fits(client_id))
        options = next(fitting, DeviceOptions(client_id))
        device: Entry = {
            "identifiers": [device_id],
            "name": options.name or client_id,
            "manufacturer": options.manufacturer or MANUFACTURER,
            "model": options.model or "MQTT-SN device",
            "via_device": self._gateway_id,
            **(versions or {}),
        }
        if options.area is not None:
            device["suggested_area"] = options.area
        if self.page_url is not None and not client_id.startswith(NO_CONNECTION):
            device["configuration_url"] = f"{self.page_url}#/devices/{quote(client_id, safe='')}"
        return self._document(device, components, [self._is_online, self._is_there(client_id)])

    def gateway_device(self) -> bytes:
        return self.gateway_document(self.gateway_entries())

    def gateway_entries(self) -> dict[str, Entry]:
        device_id = self._gateway_id
        components: dict[str, Entry] = {
            "online": {
                "platform": "binary_sensor",
                "unique_id": f"{device_id}_online",
                "name": "Online",
                "device_class": "connectivity",
                "entity_category": "diagnostic",
                "state_topic": self.topics.state,
                "payload_on": "online",
                "payload_off": "offline",
            }
        }
        for row in _OF_STATS if self.has_stats else ():
            components[row.key] = self._of_gateway(
                device_id,
                row.key,
                platform="sensor",
                name=row.name,
                state_topic=self.topics.stats,
                value_template=f"{{{{ {row.value} if value_json is defined else '' }}}}",
                **({} if row.state_class is None else {"state_class": row.state_class}),
                **row.more,
            )
        if self.takes_commands:
            components |= self._gateway_commands(device_id)
        return components

    def gateway_document(self, components: Mapping[str, Entry]) -> bytes:
        device_id = self._gateway_id
        device: Entry = {
            "identifiers": [device_id],
            "name": f"Tidegate {self.gateway}",
            "manufacturer": MANUFACTURER,
            "model": "MQTT-SN gateway",
            "sw_version": self.version,
        }
        if self.page_url is not None:
            device["configuration_url"] = self.page_url
        return self._document(device, components, None)

    # Parts

    def _gateway_commands(self, device_id: str) -> dict[str, Entry]:
        """A level that cannot be shown cannot be chosen either."""
        entries: dict[str, Entry] = {
            RESTART: self._of_gateway(
                device_id,
                RESTART,
                platform="button",
                name="Restart",
                device_class="restart",
                command_topic=f"{self.topics.commands}{RESTART}",
                qos=1,
            )
        }
        if self.has_stats:
            entries[LOG_LEVEL] = self._of_gateway(
                device_id,
                LOG_LEVEL,
                platform="select",
                name="Log level",
                icon="mdi:math-log",
                options=list(self.log_levels),
                command_topic=f"{self.topics.commands}{LOG_LEVEL}",
                qos=1,
                state_topic=self.topics.stats,
                value_template=_member("log_level"),
            )
            if self.has_joining:
                entries[PERMIT_JOINING] = self._of_gateway(
                    device_id,
                    PERMIT_JOINING,
                    platform="switch",
                    name="Permit joining",
                    icon="mdi:account-plus",
                    command_topic=f"{self.topics.commands}{PERMIT_JOINING}",
                    qos=1,
                    state_topic=self.topics.stats,
                    value_template=_member("permit_joining"),
                )
        return {key: entry | {"entity_category": "config"} for key, entry in entries.items()}

    def _options(self, client_id: str, known: KnownValue) -> ValueOptions | None:
        return next(
            (each for each in self.value_options if each.fits(client_id, known.topic, known.name)),
            None,
        )

    def _value(self, device_id: str, key: str, client_id: str, label: str, entity: Entity) -> Entry:
        return {
            "platform": entity.platform,
            "unique_id": f"{device_id}_{key}",
            "name": label,
            "state_topic": self.topics.values(client_id),
            **entity.entry,
        }

    def _of_gateway(self, device_id: str, key: str, **entry: object) -> Entry:
        """An entity whose state the gateway itself publishes: available while the gateway is."""
        return entry | {
            "unique_id": f"{device_id}_{key}",
            "entity_category": "diagnostic",
            "availability": [self._is_online],
        }

    def _document(
        self, device: Entry, components: Mapping[str, Entry], availability: list[Entry] | None
    ) -> bytes:
        document: Entry = {
            "device": device,
            "origin": {"name": "Tidegate", "sw_version": self.version},
            "components": components,
        }
        if availability is not None:
            document |= {"availability": availability, "availability_mode": "all"}
        return as_json(document)

    @property
    def _is_online(self) -> Entry:
        return {"topic": self.topics.state}

    def _is_there(self, client_id: str) -> Entry:
        template = "{{ 'online' if value_json is defined and value_json.available else 'offline' }}"
        return {"topic": self.topics.client(client_id), "value_template": template}

    @property
    def _gateway_id(self) -> str:
        return f"tidegate_{plain_name(self.gateway)}"

    def _device_id(self, client_id: str) -> str:
        return self.kept_ids.get(client_id) or usual_device_id(self.gateway, client_id)

    def _topic(self, device_id: str) -> str:
        return announcement(self.prefix, device_id)


@dataclass(frozen=True, slots=True)
class _Statistic:
    """`value`: an expression over the statistics (docs/mqtt.md)."""

    key: str
    name: str
    value: str
    state_class: str | None = "measurement"
    more: Mapping[str, object] = field(default_factory=dict)


_HIDDEN = {"enabled_by_default": False}
_OF_STATS = (
    _Statistic("awake", "Devices awake", "value_json.clients.awake"),
    _Statistic("asleep", "Devices asleep", "value_json.clients.asleep"),
    _Statistic("overdue", "Devices overdue", "value_json.clients.overdue"),
    _Statistic("lost", "Devices lost", "value_json.clients.lost"),
    _Statistic("devices", "Devices", "value_json.clients.values() | sum"),
    _Statistic("buffer", "Readings in the buffer", "value_json.buffer.readings"),
    _Statistic(
        "buffer_fill",
        "Buffer used",
        "(value_json.buffer.fill * 100) | round(1)",
        more={"unit_of_measurement": "%"},
    ),
    _Statistic(
        "buffer_age",
        "Age of the buffer",
        "value_json.buffer.oldest_s",
        more={"unit_of_measurement": "s", "device_class": "duration"},
    ),
    _Statistic("readings_rate", "Readings a second", "value_json.readings.per_s"),
    _Statistic(
        "deliveries_rate", "Deliveries a second", "value_json.deliveries.per_s", more=_HIDDEN
    ),
    _Statistic("dropped", "Dropped", "value_json.dropped.values() | sum", "total_increasing"),
    _Statistic(
        "broker_since",
        "Connected to the broker since",
        "value_json.broker.since",
        None,
        {"device_class": "timestamp"},
    ),
    _Statistic(
        "broker_connects",
        "Connections to the broker",
        "value_json.broker.connects",
        "total_increasing",
        _HIDDEN,
    ),
    _Statistic(
        "uptime",
        "Uptime",
        "value_json.uptime_s",
        more={"unit_of_measurement": "s", "device_class": "duration", **_HIDDEN},
    ),
)


def _member(name: str) -> str:
    return f"{{{{ value_json.{name} if value_json is defined else 'None' }}}}"


_WAITING = "{{ value_json.waiting | default(0) if value_json is defined else '' }}"


def _labels(shown: Sequence[tuple[KnownValue, ValueOptions | None]]) -> list[str]:
    """With the topic, or what of it differs, where several would be called the same."""
    plain = [(options and options.label) or _label(known) for known, options in shown]
    labels: list[str] = []
    for (known, _), label in zip(shown, plain, strict=True):
        topics = [
            other.topic for (other, _), same in zip(shown, plain, strict=True) if same == label
        ]
        rest = _beyond_common(known.topic, topics)
        labels.append(f"{label} {rest}" if len(topics) > 1 and rest else label)
    return labels


def _beyond_common(topic: str, topics: Sequence[str]) -> str:
    """The levels of a topic without the first ones and the last ones that all of them have."""
    split = [each.split("/") for each in topics]
    shortest = min(map(len, split))
    first = next((n for n in range(shortest) if len({each[n] for each in split}) > 1), shortest)
    last = next(
        (n for n in range(shortest - first) if len({each[-1 - n] for each in split}) > 1),
        shortest - first,
    )
    levels = topic.split("/")
    return "/".join(levels[first : len(levels) - last])


def _label(known: KnownValue) -> str:
    """Of a value without a name, the last part of its topic."""
    return in_words(known.name or known.topic.rpartition("/")[2] or known.topic)
