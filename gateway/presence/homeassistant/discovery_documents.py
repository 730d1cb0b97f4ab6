"""Discovery documents for Home Assistant: one retained message for each device, with its values.

Home Assistant cannot read SenML in CBOR, so values come from `tidegate/<name>/values/<id>`, where
the gateway publishes them as JSON. Availability comes from the device's presence: one that sleeps,
or is overdue within its tolerance, is available; one that is lost is not, and none is while the
gateway itself is offline. `expire_after` is not used: it would make a sleeper unavailable, as it
does not know how long the device sleeps.

Form and limits are those of Home Assistant 2025.4 (`components/mqtt/schemas.py`); tests check the
documents against them. docs/home_assistant.md is for users.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.presence.catalogue import Kind, KnownValue
from gateway.presence.documents import as_json
from gateway.presence.homeassistant.units import meaning_of
from gateway.presence.standing import Standing
from gateway.presence.topics import Topics, plain_name

Entry = dict[str, object]


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """What the operator has set for a value. None: as its unit implies."""

    name: str
    client: str | None = None
    label: str | None = None
    unit: str | None = None
    device_class: str | None = None
    state_class: str | None = None
    hide: bool = False

    def fits(self, client_id: str, value_name: str) -> bool:
        return value_name == self.name and self.client in (None, client_id)


@dataclass(frozen=True, slots=True)
class DiscoveryDocuments:
    """`has_stats`: there are statistics to show for the gateway itself."""

    topics: Topics
    prefix: str
    gateway: str
    version: str
    value_options: Sequence[ValueOptions] = ()
    has_stats: bool = True

    def topic_of(self, client_id: str) -> str:
        return self._topic(self._device_id(client_id))

    @property
    def topic_of_gateway(self) -> str:
        return self._topic(self._gateway_id)

    def device(self, client_id: str, values: Iterable[KnownValue]) -> bytes:
        device_id = self._device_id(client_id)
        components: dict[str, Entry] = {}
        for known in values:
            options = next(
                (each for each in self.value_options if each.fits(client_id, known.name)), None
            )
            if options is None or not options.hide:
                key = plain_name(f"{known.topic} {known.name}")
                components[key] = self._value(device_id, key, client_id, known, options)
        where = self.topics.client(client_id)
        components["standing"] = self._of_gateway(
            device_id,
            "standing",
            platform="sensor",
            name="State",
            device_class="enum",
            options=[each.value for each in Standing],
            state_topic=where,
            value_template="{{ value_json.state }}",
        )
        components["last_seen"] = self._of_gateway(
            device_id,
            "last_seen",
            platform="sensor",
            name="Last seen",
            device_class="timestamp",
            state_topic=where,
            value_template="{{ value_json.last_seen }}",
        )
        device: Entry = {
            "identifiers": [device_id],
            "name": client_id,
            "model": "MQTT-SN device",
            "via_device": self._gateway_id,
        }
        return self._document(device, components, [self._is_online, self._is_there(client_id)])

    def gateway_device(self) -> bytes:
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
        for key, name, path, unit in _OF_STATS if self.has_stats else ():
            components[key] = self._of_gateway(
                device_id,
                key,
                platform="sensor",
                name=name,
                state_class="measurement",
                state_topic=self.topics.stats,
                value_template=f"{{{{ value_json.{path} }}}}",
                **({} if unit is None else {"unit_of_measurement": unit}),
            )
        device: Entry = {
            "identifiers": [device_id],
            "name": f"Tidegate {self.gateway}",
            "model": "MQTT-SN gateway",
            "sw_version": self.version,
        }
        return self._document(device, components, None)

    # Parts

    def _value(
        self,
        device_id: str,
        key: str,
        client_id: str,
        known: KnownValue,
        options: ValueOptions | None,
    ) -> Entry:
        path = f"value_json[{_literal(known.topic)}][{_literal(known.name)}]"
        exists = f"{_literal(known.name)} in value_json.get({_literal(known.topic)}, {{}})"
        entry: Entry = {
            "platform": "sensor",
            "unique_id": f"{device_id}_{key}",
            "name": (options and options.label) or _label(known),
            "state_topic": self.topics.values(client_id),
        }
        if known.kind is Kind.BOOLEAN:
            # "None" is unknown to Home Assistant, of any platform.
            known_state = f"('None' if {path} is none else 'ON' if {path} else 'OFF')"
            template = f"{{{{ {known_state} if {exists} else '' }}}}"
            entry |= {"platform": "binary_sensor", "value_template": template}
            wanted = {"device_class": None if options is None else options.device_class}
        elif known.kind is Kind.TEXT:
            # An empty text would be a value: where this one is missing the state stays as it was.
            entry["value_template"] = f"{{{{ {path} if {exists} else this.state }}}}"
            wanted = {"device_class": None if options is None else options.device_class}
        else:
            entry["value_template"] = f"{{{{ {path} if {exists} else '' }}}}"
            wanted = _meaning(known, options)
        return entry | {name: value for name, value in wanted.items() if value is not None}

    def _of_gateway(self, device_id: str, key: str, **entry: object) -> Entry:
        """An entity whose state the gateway itself publishes: available while the gateway is."""
        return entry | {
            "unique_id": f"{device_id}_{key}",
            "entity_category": "diagnostic",
            "availability": [self._is_online],
        }

    def _document(
        self, device: Entry, components: dict[str, Entry], availability: list[Entry] | None
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
        template = "{{ 'online' if value_json.available else 'offline' }}"
        return {"topic": self.topics.client(client_id), "value_template": template}

    @property
    def _gateway_id(self) -> str:
        return f"tidegate_{plain_name(self.gateway)}"

    def _device_id(self, client_id: str) -> str:
        return f"tidegate_{plain_name(f'{self.gateway}/{client_id}')}"

    def _topic(self, device_id: str) -> str:
        return f"{self.prefix}/device/{device_id}/config"


# Key, name, where it stands in the statistics, unit.
_OF_STATS = (
    ("awake", "Devices awake", "clients.awake", None),
    ("asleep", "Devices asleep", "clients.asleep", None),
    ("overdue", "Devices overdue", "clients.overdue", None),
    ("lost", "Devices lost", "clients.lost", None),
    ("buffer", "Readings in the buffer", "buffer.readings", None),
    ("buffer_age", "Age of the buffer", "buffer.oldest_s", "s"),
    ("readings_rate", "Readings a second", "readings.per_s", None),
)


def _meaning(known: KnownValue, options: ValueOptions | None) -> dict[str, str | None]:
    meaning = meaning_of(known.unit)
    wanted = {
        "unit_of_measurement": meaning.unit,
        "device_class": meaning.device_class,
        "state_class": meaning.state_class,
    }
    if options is None:
        return wanted
    if options.device_class is not None and meaning.device_class != options.device_class:
        wanted["state_class"] = "measurement"
    chosen = {
        "unit_of_measurement": options.unit,
        "device_class": options.device_class,
        "state_class": options.state_class,
    }
    return wanted | {name: value for name, value in chosen.items() if value is not None}


def _label(known: KnownValue) -> str:
    """Of a value without a name, the last part of its topic."""
    label = known.name or known.topic.rpartition("/")[2] or known.topic
    return label[:1].upper() + label[1:].replace("_", " ")


def _literal(text: str) -> str:
    """As Jinja reads it, and without anything that could end a template."""
    escaped = text.encode("unicode_escape").decode()
    for sign in "'\"{}%#":
        escaped = escaped.replace(sign, f"\\x{ord(sign):02x}")
    return f"'{escaped}'"
