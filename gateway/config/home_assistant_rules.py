"""What goes together in a sensor of Home Assistant: device class, unit, state class.

`tidegate check` and the announcements ask the same questions here, of the generated table
(home_assistant_classes.py). Where Home Assistant has two spellings of a unit both count.
"""

from __future__ import annotations

from gateway.config.home_assistant_classes import (
    BINARY_CLASSES,
    NON_NUMERIC_CLASSES,
    SENSOR_CLASSES,
    SENSOR_STATE_CLASSES,
    SENSOR_UNITS,
    STATE_CLASS_UNITS,
    UNIT_SPELLINGS,
)


def is_sensor_class(device_class: str) -> bool:
    return device_class in SENSOR_CLASSES


def is_binary_class(device_class: str) -> bool:
    return device_class in BINARY_CLASSES


def is_numeric_class(device_class: str | None) -> bool:
    return device_class in SENSOR_CLASSES and device_class not in NON_NUMERIC_CLASSES


def units_of(device_class: str) -> tuple[str, ...] | None:
    """Those that go with it, an empty one for none; None where any does."""
    if device_class in NON_NUMERIC_CLASSES:
        return ("",)
    return SENSOR_UNITS.get(device_class)


def only_unit_of(device_class: str) -> str | None:
    """Where there is no choice."""
    units = units_of(device_class)
    return units[0] if units is not None and len(units) == 1 and units[0] else None


def wrong_unit(device_class: str, unit: str) -> str | None:
    """Why a unit, empty for none, does not go with a device class of sensors."""
    units = units_of(device_class)
    if units is None or UNIT_SPELLINGS.get(unit, unit) in units:
        return None
    some = [each for each in units if each]
    if not some:
        return f"{device_class} has no unit"
    listed = ", ".join(some) if len(some) > 1 else some[0]
    return f"{device_class} goes with {listed}" + (" or no unit" if "" in units else "")


def wrong_state_class(device_class: str | None, state_class: str, unit: str | None) -> str | None:
    """The same of a state class. `unit`: None where it is not known."""
    units = STATE_CLASS_UNITS.get(state_class)
    if units is not None and unit is not None and unit not in units:
        return f"{state_class} goes with {', '.join(units)}"
    if device_class is None or device_class not in SENSOR_STATE_CLASSES:
        return None
    classes = SENSOR_STATE_CLASSES[device_class]
    if state_class in classes:
        return None
    return f"{device_class} goes with {', '.join(classes) if classes else 'no state_class'}"
