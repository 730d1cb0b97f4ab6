"""What Home Assistant may tell a device, as entities: `[[home_assistant_command]]`.

Home Assistant publishes to the topic that the device itself has subscribed to. The broker keeps the
message for the gateway, the gateway keeps it for a device that sleeps. Nothing of it goes another
way here.

The state of such an entity is a value of the device's readings, read from the document of its last
values as the value's own entity would read it; that entity is not announced beside it. As long as
the value did not come, or is none that the entity can have, the state is unknown: Home Assistant
logs an error for a number out of range or a text that is no option. Without `state` Home Assistant
takes what it has sent for the state.

No text of the operator is ever run as a template: it stands in one as a literal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.config.patterns import matches
from gateway.config.topic_filters import covers
from gateway.presence.catalogue import KnownValue
from gateway.presence.homeassistant.entities import (
    OFF_WORDS,
    ON_WORDS,
    Entry,
    exists_in_document,
    literal,
    value_in_document,
)
from gateway.presence.topics import NO_CONNECTION, plain_name

CLIENT = "{client}"
VALUE = "{value}"
TEXT_CHARACTERS_MAX = 255  # of a state of Home Assistant
_NO_TOPIC = re.compile("[+#\0]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """The keys have the names that they have in the file; None: as Home Assistant has it. A topic
    is as devices name it. `declared_on`: the topic before `/state` of a device that has declared
    the command itself. `replaces`: names of values on the state's topic that are shown by it.
    """

    name: str
    kind: str
    topic: str
    client: str | None = None
    label: str | None = None
    state: str | None = None
    state_topic: str | None = None
    qos: int = 1
    retain: bool = False
    min: float | None = None
    max: float | None = None
    step: float | None = None
    mode: str | None = None
    unit: str | None = None
    device_class: str | None = None
    options: Sequence[str] | None = None
    payload: str | None = None
    payload_on: str | None = None
    payload_off: str | None = None
    payload_press: str | None = None
    icon: str | None = None
    entity_category: str | None = None
    enabled_by_default: bool | None = None
    declared_on: str | None = None
    replaces: Sequence[str] = ()

    def topic_for(self, client_id: str) -> str:
        return self.topic.replace(CLIENT, client_id)

    @property
    def key(self) -> str:
        """Of its entity. That of a value has an escaped space, and this one has none."""
        where = "" if self.declared_on is None else f"{self.declared_on}/".replace(" ", "\0")
        return plain_name(f"command-{where}{self.name}")

    def may_show(self, known: KnownValue) -> bool:
        """Whether that value is one that says what is in effect."""
        if self.state_topic is not None and not covers(self.state_topic, known.topic):
            return False
        return known.name == self.state or known.name in self.replaces


@dataclass(frozen=True, slots=True)
class CommandEntity:
    """`topic`: as devices name it. `shows`: topics and names of the values that it takes the place
    of. `note`: what is wrong with it, for the log.
    """

    command: CommandOptions
    topic: str
    entry: Entry
    shows: Sequence[tuple[str, str]] = ()
    note: str | None = None


def commands_for(
    client_id: str, options: Iterable[CommandOptions], declared: Iterable[CommandOptions] = ()
) -> list[CommandOptions]:
    """Those of a device: of one name the first, and what the operator has set before what the
    device declares. A sensor without a connection can be sent nothing.
    """
    if client_id.startswith(NO_CONNECTION):
        return []
    fitting = [each for each in options if each.client is None or matches(each.client, client_id)]
    topics = {each.topic_for(client_id) for each in fitting}
    commands: dict[str, CommandOptions] = {}
    for each in (*fitting, *(each for each in declared if each.topic not in topics)):
        commands.setdefault(each.key, each)
    return list(commands.values())


def entity_of_command(
    command: CommandOptions,
    client_id: str,
    values: Iterable[KnownValue],
    values_topic: str,
    topic_prefix: str,
) -> CommandEntity | None:
    """Without its id and name. None where the device's id makes no topic of it. `values`: those
    that are known. `values_topic`: where the last ones are. `topic_prefix`: of the broker's topics.
    """
    topic = command.topic_for(client_id)
    if _NO_TOPIC.search(topic):
        return None
    has_class = command.kind not in ("light", "select", "text")
    entry = _OF_KIND[command.kind](command) | _given(
        platform=command.kind,
        command_topic=f"{topic_prefix}{topic}",
        qos=command.qos,
        retain=command.retain or None,
        device_class=command.device_class if has_class else None,
        icon=command.icon,
        enabled_by_default=command.enabled_by_default,
    )
    if command.entity_category not in (None, "none"):
        entry["entity_category"] = command.entity_category
    found, note = [(each.topic, each.name) for each in values if command.may_show(each)], None
    if command.state is not None and command.kind in _STATES:
        topics = [each for each, _ in found]
        if len(topics) > 1:
            note = f"{command.state!r} comes on several topics, the first is its state: {topics}"
        found = found[:1]
        where = topics[0] if topics else command.state_topic
        is_known = where is not None and _NO_TOPIC.search(where) is None
        state = _state(command, where or "") if is_known else _absent(command.kind)
        key = "state_value_template" if command.kind == "light" else "value_template"
        entry |= {"state_topic": values_topic, key: f"{{{{ {state} }}}}"}
    elif command.kind == "update":
        entry["state_topic"] = f"{topic_prefix}{command.state_topic}"
    else:
        found = []
    return CommandEntity(command, topic, entry, found, note)


def label_of(command: CommandOptions, all_labels: Sequence[str]) -> str:
    label = plain_label(command)
    is_unclear = command.declared_on is not None and all_labels.count(label) > 1
    return f"{label} {command.declared_on}" if is_unclear else label


def plain_label(command: CommandOptions) -> str:
    return in_words(command.name) if command.label is None else command.label


def in_words(name: str) -> str:
    """For people: `wind_speed` is `Wind speed`."""
    return name[:1].upper() + name[1:].replace("_", " ")


# Each kind


def _number(command: CommandOptions) -> Entry:
    return _given(
        min=_short(command.min),
        max=_short(command.max),
        step=_short(command.step),
        mode=command.mode,
        unit_of_measurement=command.unit,
        command_template=template_of(command.payload, is_text=False),
    )


def _switch(command: CommandOptions) -> Entry:
    states = {"state_on": "ON", "state_off": "OFF"} if command.state is not None else {}
    return _light(command) | states


def _light(command: CommandOptions) -> Entry:
    return _given(payload_on=command.payload_on, payload_off=command.payload_off)


def _button(command: CommandOptions) -> Entry:
    return _given(payload_press=command.payload_press)


def _update(command: CommandOptions) -> Entry:
    """Its state is a document of its own, which Home Assistant reads as it is."""
    return _given(payload_install=command.payload_press)


def _select(command: CommandOptions) -> Entry:
    template = template_of(command.payload, is_text=True)
    return _given(options=list(command.options or ()), command_template=template)


def _text(command: CommandOptions) -> Entry:
    return _given(
        min=None if command.min is None else int(command.min),
        max=None if command.max is None else int(command.max),
        mode=command.mode,
        command_template=template_of(command.payload, is_text=True),
    )


def _short(number: float | None) -> float | None:
    """80 and not 80.0."""
    return int(number) if number is not None and float(number).is_integer() else number


def _given(**members: object) -> Entry:
    return {name: value for name, value in members.items() if value is not None}


_OF_KIND = {
    "number": _number,
    "switch": _switch,
    "light": _light,
    "button": _button,
    "update": _update,
    "select": _select,
    "text": _text,
}


# What is sent


def template_of(payload: str | None, *, is_text: bool) -> str | None:
    """The operator's text around the value. Where it is JSON, a text is escaped, and quoted where
    it has no quotes around it.
    """
    if payload is None or payload == VALUE:
        return None
    parts = payload.split(VALUE)
    is_json = is_text and _is_json(payload)
    found: list[str] = []
    quotes = 0
    for number, part in enumerate(parts):
        if number:
            value = "value"
            if is_json:
                value = "value | string | to_json" if quotes % 2 == 0 else "(value | to_json)[1:-1]"
            found.append(value)
        quotes += _quotes(part)
        if part:
            found.append(literal(part))
    return "".join(f"{{{{ {each} }}}}" for each in found)


def _is_json(payload: str) -> bool:
    try:
        json.loads(payload.replace(VALUE, "0"))
    except ValueError:
        return False
    return True


def _quotes(text: str) -> int:
    """But for those that are escaped."""
    return re.sub(r"\\.", "", text).count('"')


# What is the state


def _state(command: CommandOptions, topic: str) -> str:
    name = command.state or ""
    value, exists = value_in_document(topic, name), exists_in_document(topic, name)
    return f"({_STATES[command.kind](command, value)}) if {exists} else {_absent(command.kind)}"


def _absent(kind: str) -> str:
    """An empty state leaves the entity as it is; for a text it would be one."""
    if kind != "text":
        return "''"
    return "(this.state if this.state not in ['unknown', 'unavailable'] else '')"


def _number_state(command: CommandOptions, value: str) -> str:
    least, most = _number_range(command)
    number = f"({value} | float({least - 1!r}))"
    return f"{value} if {value} is not boolean and {least!r} <= {number} <= {most!r} else 'None'"


def _number_range(command: CommandOptions) -> tuple[float, float]:
    """Those of Home Assistant where none are given."""
    least, most = command.min, command.max
    return 1.0 if least is None else least, 100.0 if most is None else most


def _switch_state(command: CommandOptions, value: str) -> str:
    return _on_or_off(command, value, "ON", "OFF")


def _light_state(command: CommandOptions, value: str) -> str:
    return _on_or_off(command, value, command.payload_on or "ON", command.payload_off or "OFF")


def _on_or_off(command: CommandOptions, value: str, on: str, off: str) -> str:
    """What the device is sent, else what is usual; the words that are sent count first."""
    sent = [command.payload_on or "ON", command.payload_off or "OFF"]
    sent_on, sent_off = (each.lower() for each in sent)
    word = f"({value} | string | lower)"
    return (
        f"{literal(on)} if {word} in [{_listed([sent_on, *_but(ON_WORDS, sent_off)])}]"
        f" else {literal(off)} if {word} in [{_listed([sent_off, *_but(OFF_WORDS, sent_on)])}]"
        " else 'None'"
    )


def _but(words: Iterable[str], other: str) -> list[str]:
    return [each for each in words if each != other]


def _select_state(command: CommandOptions, value: str) -> str:
    options = _listed(command.options or ())
    return f"({value} | string) if ({value} | string) in [{options}] else 'None'"


def _text_state(command: CommandOptions, value: str) -> str:
    most = TEXT_CHARACTERS_MAX if command.max is None else int(command.max)
    return f"({value} | string)[:{most}] if {value} is not none else ''"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(map(literal, words))


_STATES = {
    "number": _number_state,
    "switch": _switch_state,
    "light": _light_state,
    "select": _select_state,
    "text": _text_state,
}
