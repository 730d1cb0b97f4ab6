"""What `tidegate check` says of a `[[home_assistant_value]]` that Home Assistant would refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.problems import ConfigError
from gateway.config.reader import load

FILE = Path("config.toml")


def checked(text: str) -> list[str]:
    """The problems, without their places."""
    content = f'[gateway]\nname = "a"\n[[home_assistant_value]]\n{text}\n'.encode()
    try:
        load(FILE, environment={}, overrides=(), content=content)
    except ConfigError as error:
        return [line.partition("home_assistant_value.0.")[2] for line in str(error).splitlines()]
    return []


@pytest.mark.parametrize(
    "text",
    [
        'name = ""',
        'name = "t"\ndevice_class = "temperature"\nunit = "°F"\nprecision = 1',
        'name = "t"\ndevice_class = "temperature_delta"\nunit = "K"',
        'name = "h"\ndevice_class = "absolute_humidity"\nunit = "g/m³"',
        'name = "d"\ndevice_class = "pm4"\nunit = "µg/m³"',
        'name = "e"\ndevice_class = "reactive_energy"\nunit = "kVArh"\nstate_class = "total"',
        'name = "w"\ndevice_class = "wind_direction"\nstate_class = "measurement_angle"',
        'name = "w"\nunit = "°"\nstate_class = "measurement_angle"',
        'name = "c"\ndevice_class = "monetary"\nunit = "EUR"',
        'name = "o"\ndevice_class = "door"\npayload_on = "1"\npayload_off = "0"',
        'name = "o"\nclient = "kitchen-*"\ntopic = "sensors/+/door"\nicon = "mdi:door"',
        'name = "m"\noptions = ["idle", "running"]\ndevice_class = "enum"',
        'name = "m"\nentity_category = "none"\nenabled_by_default = false\nexpire_after_s = 60',
    ],
)
def test_what_home_assistant_takes_is_right(text: str) -> None:
    assert checked(text) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('device_class = "temperature"\nunit = "mAh"', "unit: expected another one: temperature"),
        ('device_class = "humidity"\nunit = "°C"', "unit: expected another one: humidity goes"),
        ('device_class = "ph"\nunit = "pH"', "unit: expected another one: ph has no unit"),
        ('device_class = "timestamp"\nunit = "s"', "unit: expected another one: timestamp has"),
        ('device_class = "door"\nunit = "°C"', "unit: expected none beside it: door is a binary"),
        ('device_class = "energy"\nstate_class = "measurement"', "state_class: expected another"),
        ('device_class = "date"\nstate_class = "total"', "date goes with no state_class"),
        ('state_class = "measurement_angle"', "measurement_angle goes with °"),
        ('device_class = "date"\nprecision = 1', "precision: expected none beside it: date is no"),
        ('payload_on = "1"\npayload_off = "1"', "payload_off: expected another one than"),
        ("options = []", "options: expected at least one"),
        ('value_template = "{{ 1 }}"', "value_template: unknown key, values come as a document"),
        ('icon = "door"', "icon: expected the name of an icon"),
        ('entity_category = "config"', 'entity_category: expected "none" or "diagnostic"'),
    ],
)
def test_what_it_would_refuse_is_said(text: str, problem: str) -> None:
    (found,) = checked(f'name = "x"\n{text}')
    assert problem in found


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ('payload_on = "1"\nunit = "V"', "payload_on: has no effect: with unit the value is a"),
        ('payload_on = "1"\ndevice_class = "ph"', "payload_on: has no effect: with device_class"),
        ('options = ["a"]\nprecision = 1', "options: has no effect: with precision"),
        ('options = ["a"]\ndevice_class = "date"', "options: has no effect: it is for device"),
        ('options = ["a"]\ndevice_class = "enum"', None),
        ('payload_on = "1"\ndevice_class = "battery"', None),
    ],
)
def test_what_has_no_effect_is_a_warning(text: str, warning: str | None) -> None:
    content = f'[[home_assistant_value]]\nname = "x"\n{text}\n'.encode()
    found = load(FILE, environment={}, overrides=(), content=content).warnings
    about = [line for line in found if "home_assistant_value" in line]
    assert [warning is not None and warning in line for line in about] == [True] * len(about)
    assert bool(about) is (warning is not None)
