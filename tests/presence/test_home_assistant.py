"""What Home Assistant is told, held against what it accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.keys import BINARY_CLASSES, DEVICE_CLASSES, SENSOR_CLASSES
from gateway.presence.catalogue import Kind, KnownValue
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments, ValueOptions
from gateway.presence.homeassistant.units import MEANINGS
from gateway.presence.standing import Standing
from gateway.presence.topics import Topics
from tests.support import home_assistant
from tests.support.home_assistant import objections

TOPICS = Topics("site-7/", "greenhouse")
BATTERY = KnownValue("sensors/kitchen", "battery", Kind.NUMBER, "%EL")
DOOR = KnownValue("sensors/kitchen", "door", Kind.BOOLEAN)
WORD = KnownValue("sensors/kitchen", "mode", Kind.TEXT)
NAMELESS = KnownValue("sensors/kitchen/co2", "", Kind.NUMBER, "ppm")


def documents(*value_options: ValueOptions, has_stats: bool = True) -> DiscoveryDocuments:
    return DiscoveryDocuments(
        TOPICS, "homeassistant", "greenhouse", "1.0", value_options, has_stats
    )


def announced(*values: KnownValue, value_options: tuple[ValueOptions, ...] = ()) -> dict[str, Any]:
    said = documents(*value_options).device("kitchen-1", values)
    document: dict[str, Any] = json.loads(said)
    return document


def entity(known: KnownValue, *value_options: ValueOptions) -> dict[str, Any]:
    """What is said of one value."""
    components = announced(known, value_options=value_options)["components"]
    (key,) = components.keys() - {"standing", "last_seen"}
    found: dict[str, Any] = components[key]
    return found


@pytest.mark.parametrize("unit", [*MEANINGS, "furlong", "B spl"])
def test_every_unit_becomes_something_that_home_assistant_takes(unit: str) -> None:
    said = documents()
    document = said.device("kitchen-1", [KnownValue("sensors/kitchen", "x", Kind.NUMBER, unit)])
    assert objections("homeassistant", said.topic_of("kitchen-1"), document) == []


@pytest.mark.parametrize("has_stats", [True, False])
def test_the_gateway_itself_is_announced_as_home_assistant_takes_it(has_stats: bool) -> None:
    said = documents(has_stats=has_stats)
    document = said.gateway_device()
    assert objections("homeassistant", said.topic_of_gateway, document) == []
    assert ("buffer" in json.loads(document)["components"]) is has_stats


ids = st.text(min_size=1, max_size=12)


@given(ids, ids, ids, st.sampled_from(Kind))
def test_whatever_a_device_names_it_is_announced(
    client_id: str, topic: str, name: str, kind: Kind
) -> None:
    said = documents()
    values = [KnownValue(topic, name, kind), KnownValue(topic, f"{name}2", kind), BATTERY]
    document = said.device(client_id, values)
    assert objections("homeassistant", said.topic_of(client_id), document) == []


@given(st.lists(ids, min_size=2, max_size=2, unique=True))
def test_two_devices_have_two_announcements(client_ids: list[str]) -> None:
    said = documents()
    one, other = map(said.topic_of, client_ids)
    assert one != other
    assert said.topic_of_gateway not in (one, other)


def test_a_device_belongs_to_its_gateway() -> None:
    device = announced(BATTERY)["device"]
    assert device["name"] == "kitchen-1"
    assert device["via_device"] == "tidegate_greenhouse"
    assert [device["via_device"]] == json.loads(documents().gateway_device())["device"][
        "identifiers"
    ]


def test_a_value_is_what_its_unit_says() -> None:
    said = entity(BATTERY)
    assert said["device_class"] == "battery"
    assert said["unit_of_measurement"] == "%"
    assert said["state_class"] == "measurement"
    assert said["name"] == "Battery"
    assert said["state_topic"] == "site-7/tidegate/greenhouse/values/kitchen-1"
    assert said["value_template"] == (
        "{{ value_json['sensors/kitchen']['battery'] "
        "if 'battery' in value_json.get('sensors/kitchen', {}) else '' }}"
    )


def test_a_truth_is_a_binary_sensor_and_a_text_has_no_unit() -> None:
    assert entity(DOOR)["platform"] == "binary_sensor"
    assert "'ON'" in entity(DOOR)["value_template"]
    text = entity(WORD)
    assert text["platform"] == "sensor"
    assert text.keys().isdisjoint({"unit_of_measurement", "state_class", "device_class"})


def test_a_value_without_a_name_is_called_after_its_topic() -> None:
    assert entity(NAMELESS)["name"] == "Co2"


def test_the_operator_says_what_a_unit_does_not() -> None:
    options = ValueOptions("", label="CO2", device_class="carbon_dioxide")
    said = entity(NAMELESS, ValueOptions("", client="another", label="no"), options)
    assert said["name"] == "CO2"
    assert said["device_class"] == "carbon_dioxide"
    assert said["unit_of_measurement"] == "ppm"


def test_another_class_has_other_statistics() -> None:
    energy = KnownValue("meter", "total", Kind.NUMBER, "kWh")
    assert entity(energy)["state_class"] == "total_increasing"
    assert entity(energy, ValueOptions("total", label="All"))["state_class"] == "total_increasing"
    assert (
        entity(energy, ValueOptions("total", device_class="power"))["state_class"] == "measurement"
    )
    options = ValueOptions("total", device_class="energy", state_class="total")
    assert entity(energy, options)["state_class"] == "total"


def test_what_the_operator_hides_is_not_announced() -> None:
    components = announced(BATTERY, DOOR, value_options=(ValueOptions("battery", hide=True),))[
        "components"
    ]
    assert not any("battery" in key for key in components)
    assert any("door" in key for key in components)


def test_only_who_is_lost_or_has_left_is_unavailable() -> None:
    """Home Assistant asks the gateway's state and the device's, which says who is gone."""
    said = announced(BATTERY)
    assert said["availability_mode"] == "all"
    state, device = said["availability"]
    assert state == {"topic": "site-7/tidegate/greenhouse/state"}
    assert device["topic"] == "site-7/tidegate/greenhouse/clients/kitchen-1"
    assert device["value_template"] == "{{ 'online' if value_json.available else 'offline' }}"
    assert "expire_after" not in json.dumps(said), "it would know nothing of sleep"


def test_how_a_device_stands_can_be_read_also_when_it_is_lost() -> None:
    standing = announced()["components"]["standing"]
    assert standing["availability"] == [{"topic": "site-7/tidegate/greenhouse/state"}]
    assert standing["options"] == [each.value for each in Standing]


@pytest.mark.parametrize("text", ["it's", '"', "{{ x }}", "{% y %}", "\\", "é", "\n", "😀", "{#"])
def test_no_name_can_end_a_template(text: str) -> None:
    template: str = entity(KnownValue(text, text, Kind.NUMBER))["value_template"]
    inside = template.removeprefix("{{").removesuffix("}}")
    assert inside.isascii()
    assert inside.isprintable()
    assert not {"{{", "}}", "{%", "%}", "{#", "#}"} & {
        inside.replace("{})", "")[at : at + 2] for at in range(len(inside))
    }
    assert inside.count("'") % 2 == 0


def test_device_classes_of_the_configuration_are_those_of_home_assistant() -> None:
    assert set(home_assistant.SENSOR_CLASSES) <= set(SENSOR_CLASSES)
    assert set(home_assistant.BINARY_CLASSES) <= set(BINARY_CLASSES)
    assert set(DEVICE_CLASSES) == {*SENSOR_CLASSES, *BINARY_CLASSES}
