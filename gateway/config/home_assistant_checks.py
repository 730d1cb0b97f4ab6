"""What of a `[[home_assistant_value]]` Home Assistant would refuse, whatever the device sends.

What depends on the device's values is left out of its announcement, with a line in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.config.home_assistant_classes import NON_NUMERIC_CLASSES
from gateway.config.home_assistant_rules import (
    is_binary_class,
    is_numeric_class,
    is_sensor_class,
    wrong_state_class,
    wrong_unit,
)
from gateway.config.settings import HomeAssistantValueSettings

# What only a number has.
_OF_NUMBER = ("unit", "state_class", "precision")


def problems_of(value: HomeAssistantValueSettings) -> Iterator[tuple[str, str]]:
    """The key, and what of it Home Assistant would refuse whatever the device sends."""
    device_class = value.device_class
    if device_class is None or is_sensor_class(device_class):
        yield from _problems_of_sensor(value)
    else:
        message = f"expected none beside it: {device_class} is a binary sensor"
        yield from ((name, message) for name in _given(value, (*_OF_NUMBER, "options")))
    if value.payload_on is not None and value.payload_on == value.payload_off:
        yield "payload_off", "expected another one than payload_on"
    if value.options is not None and not value.options:
        yield "options", "expected at least one"


def useless_of(value: HomeAssistantValueSettings) -> Iterator[tuple[str, str]]:
    """The key, and beside what it has no effect."""
    device_class = value.device_class
    numeric = _given(value, _OF_NUMBER)
    if is_numeric_class(device_class) and not is_binary_class(device_class or ""):
        numeric.append("device_class")
    for name in _given(value, ("options", "payload_on", "payload_off")):
        if numeric:
            yield name, f"has no effect: with {numeric[0]} the value is a number"
        elif name == "options" and device_class not in (None, "enum"):
            yield name, 'has no effect: it is for device_class = "enum"'


def _given(value: HomeAssistantValueSettings, names: Iterable[str]) -> list[str]:
    return [name for name in names if getattr(value, name) is not None]


def _problems_of_sensor(value: HomeAssistantValueSettings) -> Iterator[tuple[str, str]]:
    device_class, unit, state_class = value.device_class, value.unit, value.state_class
    if device_class is not None and unit is not None and (why := wrong_unit(device_class, unit)):
        yield "unit", f"expected another one: {why}"
    if value.precision is not None and device_class in NON_NUMERIC_CLASSES:
        yield "precision", f"expected none beside it: {device_class} is no number"
    # Of wind_direction the unit is known; of others it may come from the device, or not.
    sure = unit if unit is not None or device_class == "wind_direction" else ""
    if state_class is not None and (why := wrong_state_class(device_class, state_class, sure)):
        yield "state_class", f"expected another one: {why}"
