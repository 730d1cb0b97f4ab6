"""The same of what can be set: number, switch, button, select, text, light and update.

Source: `components/mqtt/` of the package `homeassistant` 2026.2.3: `config.py` (MQTT_RW_SCHEMA),
`number.py`, `switch.py`, `button.py`, `select.py`, `text.py`, `light/schema_basic.py`, `update.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gateway.config.home_assistant_classes import BUTTON_CLASSES, NUMBER_CLASSES, SWITCH_CLASSES

COMMON = {
    "platform",
    "unique_id",
    "name",
    "availability",
    "availability_mode",
    "enabled_by_default",
    "entity_category",
    "icon",
    "qos",
    "encoding",
    "retain",
    "command_topic",
}
_READ = {"state_topic", "value_template", "optimistic", "command_template"}
OF_PLATFORM = {
    "number": COMMON
    | _READ
    | {"device_class", "max", "min", "mode", "payload_reset", "step", "unit_of_measurement"},
    "switch": COMMON
    | _READ
    | {"device_class", "payload_off", "payload_on", "state_off", "state_on"},
    "button": COMMON | {"command_template", "device_class", "payload_press"},
    "select": COMMON | _READ | {"options"},
    "text": COMMON | _READ | {"max", "min", "mode", "pattern"},
    "light": COMMON
    | {"state_topic", "state_value_template", "optimistic", "payload_off", "payload_on"},
    "update": COMMON
    | {"state_topic", "value_template", "device_class", "payload_install", "title"},
}
NEEDS = {each: {"platform", "unique_id", "command_topic"} for each in OF_PLATFORM} | {
    "select": {"platform", "unique_id", "command_topic", "options"},
    "update": {"platform", "unique_id", "state_topic"},
}
_CLASSES = {
    "number": NUMBER_CLASSES,
    "switch": SWITCH_CLASSES,
    "button": BUTTON_CLASSES,
    "update": ("firmware",),
}
_MODES = {"number": ("auto", "box", "slider"), "text": ("text", "password")}
CATEGORIES = {"config", "diagnostic"}


def of_command(entity: dict[str, Any]) -> Iterator[str]:
    """Why it would not be taken, beside names of members and topics."""
    platform = entity["platform"]
    device_class = entity.get("device_class")
    if device_class is not None and device_class not in _CLASSES.get(platform, ()):
        yield f"{device_class} is no class of a {platform}"
    if entity.get("qos", 0) not in (0, 1, 2):
        yield "a QoS that is none"
    if "mode" in entity and entity["mode"] not in _MODES[platform]:
        yield f"{entity['mode']} is no mode of a {platform}"
    if platform == "number":
        if entity.get("min", 1) > entity.get("max", 100):
            yield "max must be >= min"
        if entity.get("step", 1) < 0.001:
            yield "a step that is too small"
    if platform == "text":
        least, most = entity.get("min", 0), entity.get("max", 255)
        if not 0 <= least <= most <= 255 or not isinstance(least + most, int):
            yield "lengths of a text that are none"
    if platform == "select" and not isinstance(entity["options"], list):
        yield "options that are no list"
