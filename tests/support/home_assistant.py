"""What Home Assistant accepts as the announcement of a device, written down from its source.

Source: the package `homeassistant` 2026.2.3, `components/mqtt/schemas.py` (DEVICE_DISCOVERY_SCHEMA,
MQTT_ENTITY_COMMON_SCHEMA), `discovery.py` (TOPIC_MATCHER), `sensor.py`, `binary_sensor.py`,
`event.py` (their PLATFORM_SCHEMA_MODERN) and `device_trigger.py` (TRIGGER_DISCOVERY_SCHEMA).
Device classes, units and state classes are those of
gateway/config/home_assistant_classes.py, which is generated from it. The package itself needs
another Python and a hundred others; what is here is all of it that decides about what we send.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from gateway.config.home_assistant_classes import (
    BINARY_CLASSES,
    SENSOR_CLASSES,
    SENSOR_STATE_CLASSES,
    SENSOR_UNITS,
    STATE_CLASS_UNITS,
    UNIT_SPELLINGS,
)
from tests.support import home_assistant_commands as commands

TOPIC = re.compile(
    r"(?P<component>\w+)/(?:(?P<node_id>[a-zA-Z0-9_-]+)/)?(?P<object_id>[a-zA-Z0-9_-]+)/config"
)
DOCUMENT_NEEDS = {"device", "origin", "components"}
DOCUMENT = DOCUMENT_NEEDS | {"availability", "availability_mode", "state_topic", "qos", "encoding"}
ORIGIN_NEEDS = {"name"}
ORIGIN = ORIGIN_NEEDS | {"sw_version", "support_url"}
DEVICE_NEEDS = {"identifiers"}
DEVICE = DEVICE_NEEDS | {
    "connections",
    "manufacturer",
    "model",
    "model_id",
    "name",
    "hw_version",
    "serial_number",
    "sw_version",
    "via_device",
    "suggested_area",
    "configuration_url",
}
AVAILABILITY_NEEDS = {"topic"}
AVAILABILITY = AVAILABILITY_NEEDS | {
    "payload_available",
    "payload_not_available",
    "value_template",
}
AVAILABILITY_MODES = {"all", "any", "latest"}
ENTITY_NEEDS = {"platform", "unique_id", "state_topic"}
ENTITY = ENTITY_NEEDS | {
    "availability",
    "availability_mode",
    "enabled_by_default",
    "entity_category",
    "icon",
    "json_attributes_topic",
    "json_attributes_template",
    "object_id",
    "qos",
    "encoding",
    "value_template",
    "device_class",
    "expire_after",
    "force_update",
    "name",
}
OF_PLATFORM = {
    "sensor": ENTITY
    | {
        "last_reset_value_template",
        "options",
        "suggested_display_precision",
        "state_class",
        "unit_of_measurement",
    },
    "binary_sensor": ENTITY | {"off_delay", "payload_on", "payload_off"},
    "event": (ENTITY - {"expire_after", "force_update"}) | {"event_types"},
}
TRIGGER_NEEDS = {"platform", "automation_type", "topic", "type", "subtype"}
TRIGGER = TRIGGER_NEEDS | {"payload", "value_template", "qos", "encoding"}
NEEDS_OF_PLATFORM = {"event": ENTITY_NEEDS | {"event_types"}}
CLASSES_OF = {
    "binary_sensor": set(BINARY_CLASSES),
    "event": {"button", "doorbell", "motion"},
}
ENTITY_CATEGORIES = {"diagnostic"}  # of what has no input


def objections(prefix: str, topic: str, payload: bytes) -> list[str]:
    """Why Home Assistant would not take it, or would warn; nothing if it takes it."""
    found = TOPIC.fullmatch(topic.removeprefix(f"{prefix}/"))
    if found is None or found["component"] != "device":
        return [f"the topic {topic} is no discovery of a device"]
    return list(_of_document(json.loads(payload)))


def _of_document(document: dict[str, Any]) -> Iterator[str]:
    yield from _members("the document", document, DOCUMENT_NEEDS, DOCUMENT)
    yield from _members("origin", document.get("origin", {}), ORIGIN_NEEDS, ORIGIN)
    device = document.get("device", {})
    yield from _members("device", device, DEVICE_NEEDS, DEVICE)
    if not device.get("identifiers"):
        yield "a device needs an identifier"
    yield from _of_availability(document)
    components = document.get("components", {})
    of_entities = [each for each in components.values() if "automation_type" not in each]
    unique = [each.get("unique_id") for each in of_entities]
    triggers = [
        (each["type"], each["subtype"]) for each in components.values() if "automation_type" in each
    ]
    if len(set(triggers)) != len(triggers):
        yield f"triggers that are there twice: {triggers}"
    if len(set(unique)) != len(unique):
        yield f"unique ids that are not: {unique}"
    for key, entity in components.items():
        if " " in key:
            yield f"{key!r}: the key of a component with a space"
        yield from (f"{key}: {why}" for why in _of_entity(entity))


def _of_availability(holder: dict[str, Any]) -> Iterator[str]:
    for each in holder.get("availability", []):
        yield from _members("availability", each, AVAILABILITY_NEEDS, AVAILABILITY)
        yield from _of_topic(each["topic"])
    if holder.get("availability_mode", "latest") not in AVAILABILITY_MODES:
        yield "an availability mode that is none"


def _of_entity(entity: dict[str, Any]) -> Iterator[str]:
    platform = entity.get("platform", "")
    platforms = (*OF_PLATFORM, *commands.OF_PLATFORM, "device_automation")
    if entity.keys() == {"platform"} and platform in platforms:
        return  # it takes the entity back
    if platform == "device_automation":
        yield from _members("it", entity, TRIGGER_NEEDS, TRIGGER)
        yield from _of_topic(entity.get("topic", ""))
        return
    if platform in commands.OF_PLATFORM:
        yield from _of_command(platform, entity)
        return
    needs = NEEDS_OF_PLATFORM.get(platform, ENTITY_NEEDS)
    yield from _members("it", entity, needs, OF_PLATFORM.get(platform, set()))
    yield from _of_availability(entity)
    yield from _of_topic(entity.get("state_topic", ""))
    if entity.get("entity_category", "diagnostic") not in ENTITY_CATEGORIES:
        yield "an entity category that is none"
    if platform == "sensor":
        yield from _of_sensor(entity)
    elif entity.get("device_class") not in (None, *CLASSES_OF.get(platform, ())):
        yield f"{entity['device_class']} is no class of {platform.replace('_', ' ')}s"
    if not entity.get("event_types", ["some"]):
        yield "an event without types"


def _of_command(platform: str, entity: dict[str, Any]) -> Iterator[str]:
    yield from _members("it", entity, commands.NEEDS[platform], commands.OF_PLATFORM[platform])
    yield from _of_availability(entity)
    for key in ("command_topic", "state_topic"):
        if key in entity:
            yield from _of_topic(entity[key])
    if entity.get("entity_category", "config") not in commands.CATEGORIES:
        yield "an entity category that is none"
    yield from commands.of_command(entity)


def _of_sensor(entity: dict[str, Any]) -> Iterator[str]:
    device_class = entity.get("device_class")
    unit, state_class = entity.get("unit_of_measurement", ""), entity.get("state_class", "")
    unit = UNIT_SPELLINGS.get(unit, unit)
    if "options" in entity and (device_class != "enum" or unit or state_class):
        yield "options go with the device class enum and without unit and state class"
    if unit not in STATE_CLASS_UNITS.get(state_class, (unit,)):
        yield f"{state_class} has no unit {unit}"
    if device_class is None:
        return
    if device_class not in SENSOR_CLASSES:
        yield f"{device_class} is no class of sensors"
    if unit not in SENSOR_UNITS.get(device_class, ("",)):
        yield f"{device_class} has no unit {unit}"
    if state_class and state_class not in SENSOR_STATE_CLASSES[device_class]:
        yield f"{device_class} has no state class {state_class}"


def _of_topic(topic: str) -> Iterator[str]:
    if not topic or any(one in topic for one in "+#\0"):
        yield f"{topic!r} is no topic"


def _members(what: str, holder: dict[str, Any], needs: set[str], may: set[str]) -> Iterator[str]:
    if missing := needs - holder.keys():
        yield f"{what} lacks {sorted(missing)}"
    if strange := holder.keys() - may:
        yield f"{what} has {sorted(strange)}"
