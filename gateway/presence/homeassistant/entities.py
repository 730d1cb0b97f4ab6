"""One value of a device as an entity of Home Assistant: what it is, and how its state is read.

Which platform: a boolean, and what the operator calls a binary sensor, is one; everything else is a
sensor. A text is a number where the operator has given it what only numbers have. What the operator
has set and Home Assistant would refuse for this value is left out, and said (`Entity.left_out`): an
announcement that is refused would show nothing at all.

Templates bear an empty payload, which a state topic that is cleared has, and a document without the
value: numbers and binary sensors stay as they are then, by an empty result; so do texts, which take
their own last state. A value that is null is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config.home_assistant_rules import (
    is_binary_class,
    is_numeric_class,
    is_sensor_class,
    only_unit_of,
    wrong_state_class,
    wrong_unit,
)
from gateway.presence.catalogue import Kind, KnownValue
from gateway.presence.homeassistant.overrides import NONE_SET, ValueOptions
from gateway.presence.homeassistant.units import (
    BINARY_BY_NAME,
    BOOKKEEPING,
    DIAGNOSTIC,
    Meaning,
    meaning_of,
    plain_words,
)
from gateway.presence.last_values import EVENT_NAMES

Entry = dict[str, object]

# Texts and numbers of a binary sensor whose operator has not said which they are; lower case.
ON_WORDS = ["1", "1.0", "true", "on", "yes", "open", "opened", "detected", "wet", "active"]
OFF_WORDS = ["0", "0.0", "false", "off", "no", "closed", "clear", "dry", "inactive"]


@dataclass(frozen=True, slots=True)
class Entity:
    """`left_out`: what of the operator's wishes is not announced, and why."""

    platform: str
    entry: Entry
    left_out: tuple[str, ...] = ()


def entity_of(known: KnownValue, options: ValueOptions | None) -> Entity:
    """Without what depends on its device: id, name, state topic."""
    chosen = options or NONE_SET
    left_out: list[str] = []
    words = plain_words(known.name)
    if _is_binary(known.kind, chosen):
        entry = _binary(known, chosen, words, left_out)
        platform = "binary_sensor"
    else:
        platform = "sensor"
        if chosen.is_numeric or (known.kind is Kind.NUMBER and not chosen.is_enumeration):
            entry = _number(known, chosen, words, left_out)
        else:
            entry = _text(known, chosen, left_out)
    _add_common(entry, chosen, words)
    return Entity(platform, entry, tuple(left_out))


def event_of(known: KnownValue, options: ValueOptions | None) -> Entry | None:
    """What also is an event, where the operator has listed what can happen: Home Assistant takes no
    other. The state topic has the events of all values of the device.
    """
    chosen, is_named = options or NONE_SET, known.name in EVENT_NAMES
    if not chosen.options or not (chosen.event or (is_named and known.kind is Kind.TEXT)):
        return None
    return _given(
        platform="event",
        event_types=list(chosen.options),
        device_class="button" if is_named else None,
        icon=chosen.icon,
        value_template=f"{{{{ value if {_is_event_of(known)} else '' }}}}",
    )


def trigger_of(known: KnownValue, label: str, happening: str) -> Entry:
    """One of the things that can happen there, as a trigger of the device: `label` and what happens
    are what an automation refers to, and what its user sees. Without its topic.
    """
    event = "value_json.event_type"
    return _given(
        platform="device_automation",
        automation_type="trigger",
        type=label,
        subtype=happening,
        payload=happening,
        value_template=f"{{{{ {event} if {_is_event_of(known)} else '' }}}}",
    )


def is_template(text: str) -> bool:
    """Of a trigger Home Assistant takes the topic, which has the client id, and the payload for
    templates; neither can be escaped in one.
    """
    return any(sign in text for sign in ("{{", "{%", "{#"))


def _is_event_of(known: KnownValue) -> str:
    topic, name = literal(known.topic), literal(known.name)
    return f"value_json.topic == {topic} and value_json.name == {name}"


def _is_binary(kind: Kind, chosen: ValueOptions) -> bool:
    return chosen.is_binary or kind is Kind.BOOLEAN


# Each kind


def _binary(known: KnownValue, chosen: ValueOptions, words: str, left_out: list[str]) -> Entry:
    device_class = chosen.device_class
    if device_class is not None and not is_binary_class(device_class):
        left_out.append(f"device_class {device_class}: it is a boolean")
        device_class = None
    elif device_class is None and known.kind is Kind.BOOLEAN:
        device_class = BINARY_BY_NAME.get(words)
    left_out += [
        f"{name}: it is a binary sensor"
        for name in ("unit", "state_class", "precision", "options")
        if getattr(chosen, name) is not None
    ]
    value, exists = _value(known), _exists(known)
    if known.kind is Kind.BOOLEAN and chosen.payload_on is None and chosen.payload_off is None:
        state = f"'ON' if {value} else 'OFF'"
    else:
        state = _by_words(value, chosen)
    state = f"({state}) if {value} is not none else 'None'"
    return _given(
        value_template=f"{{{{ ({state}) if {exists} else '' }}}}", device_class=device_class
    )


def _by_words(value: str, chosen: ValueOptions) -> str:
    """What is neither is unknown."""
    on = ON_WORDS if chosen.payload_on is None else [chosen.payload_on.lower()]
    off = OFF_WORDS if chosen.payload_off is None else [chosen.payload_off.lower()]
    # One of them alone says what the other is: all the rest.
    otherwise = "'None'"
    if chosen.payload_on is not None and chosen.payload_off is None:
        off, otherwise = [], "'OFF'"
    elif chosen.payload_off is not None and chosen.payload_on is None:
        on, otherwise = [], "'ON'"
    parts = [
        f"'{state}' if ({value} | string | lower) in [{', '.join(map(literal, listed))}] else"
        for state, listed in (("ON", on), ("OFF", off))
        if listed
    ]
    return " ".join([*parts, otherwise])


def _number(known: KnownValue, chosen: ValueOptions, words: str, left_out: list[str]) -> Entry:
    meaning = _meaning(known, chosen, words, left_out)
    value, exists = _value(known), _exists(known)
    is_plain = meaning == Meaning(state_class=None) and chosen.precision is None
    # Home Assistant takes an empty state for none only where it expects a number.
    otherwise = LAST_STATE if is_plain else "''"
    return _given(
        value_template=f"{{{{ {value} if {exists} else {otherwise} }}}}",
        unit_of_measurement=meaning.unit,
        device_class=meaning.device_class,
        state_class=meaning.state_class,
        suggested_display_precision=chosen.precision,
    )


def _text(known: KnownValue, chosen: ValueOptions, left_out: list[str]) -> Entry:
    device_class = chosen.device_class
    if chosen.is_enumeration:
        device_class = "enum"
    elif device_class is not None and (
        not is_sensor_class(device_class) or is_numeric_class(device_class)
    ):
        left_out.append(f"device_class {device_class}: it is a text")
        device_class = None
    return _given(
        value_template=f"{{{{ {_value(known)} if {_exists(known)} else {LAST_STATE} }}}}",
        device_class=device_class,
        options=list(chosen.options or ()) if chosen.is_enumeration else None,
    )


def _meaning(known: KnownValue, chosen: ValueOptions, words: str, left_out: list[str]) -> Meaning:
    """As the operator has set it, over what its unit or name implies."""
    implied = meaning_of(known.unit, known.name)
    unit, device_class = implied.unit, implied.device_class
    state_class = implied.state_class
    if chosen.unit is not None:
        named = meaning_of(chosen.unit, known.name)
        unit = chosen.unit if named.unit is None else named.unit
        if device_class is None or wrong_unit(device_class, unit) is not None:
            device_class, state_class = named.device_class, named.state_class
    if chosen.device_class is not None and chosen.device_class != implied.device_class:
        device_class, state_class = chosen.device_class, "measurement"
    if device_class is not None and not is_numeric_class(device_class):
        left_out.append(f"device_class {device_class}: it is a number")
        device_class = None
    if device_class is not None:
        unit = unit or only_unit_of(device_class)
        why = wrong_unit(device_class, unit or "")
        if why is not None:
            left_out.append(f"device_class {device_class} with {_shown(unit)}: {why}")
            device_class = None
    if chosen.state_class is not None:
        why = wrong_state_class(device_class, chosen.state_class, unit or "")
        if why is None:
            state_class = chosen.state_class
        else:
            left_out.append(f"state_class {chosen.state_class}: {why}")
    if state_class and wrong_state_class(device_class, state_class, unit or ""):
        state_class = _usual_state_class(device_class, unit)
    return Meaning(unit, device_class, state_class)


def _usual_state_class(device_class: str | None, unit: str | None) -> str:
    """Where it is not that of a measurement."""
    others = ("total_increasing", "total", "measurement_angle")
    return next(
        each for each in others if wrong_state_class(device_class, each, unit or "") is None
    )


def _shown(unit: str | None) -> str:
    return f"unit {unit}" if unit else "no unit"


def _add_common(entry: Entry, chosen: ValueOptions, words: str) -> None:
    category = chosen.entity_category
    if category is None and words in DIAGNOSTIC:
        category = "diagnostic"
    if category not in (None, "none"):
        entry["entity_category"] = category
    enabled = chosen.enabled_by_default
    if enabled is None and words in BOOKKEEPING:
        enabled = False
    if enabled is not None:
        entry["enabled_by_default"] = enabled
    entry |= _given(icon=chosen.icon)


def _given(**members: object) -> Entry:
    return {name: value for name, value in members.items() if value is not None}


# Templates

# Of an entity whose document does not have its value: as it was.
LAST_STATE = "(this.state if this.state not in ['unknown', 'unavailable'] else 'None')"


def value_in_document(topic: str, name: str) -> str:
    """Of the device's last values."""
    return f"value_json[{literal(topic)}][{literal(name)}]"


def exists_in_document(topic: str, name: str) -> str:
    of_topic = f"(value_json | default({{}}, true)).get({literal(topic)}, {{}})"
    return f"{literal(name)} in {of_topic}"


def _value(known: KnownValue) -> str:
    return value_in_document(known.topic, known.name)


def _exists(known: KnownValue) -> str:
    return exists_in_document(known.topic, known.name)


def literal(text: str) -> str:
    """As Jinja reads it, and without anything that could end a template."""
    escaped = text.encode("unicode_escape").decode()
    for sign in "'\"{}%#":
        escaped = escaped.replace(sign, f"\\x{ord(sign):02x}")
    return f"'{escaped}'"
