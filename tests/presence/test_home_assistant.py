"""What Home Assistant is told, held against what it accepts."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from socket import gethostname
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.app.build_homeassistant import page_url
from gateway.config import HostPort
from gateway.config import home_assistant_classes as classes
from gateway.config.keys import STATE_CLASSES
from gateway.config.kinds import DeviceClass, Icon, MismatchError
from gateway.presence.catalogue import Kind, KnownValue
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments
from gateway.presence.homeassistant.overrides import DeviceOptions, ValueOptions
from gateway.presence.homeassistant.units import MEANINGS
from gateway.presence.standing import Standing
from gateway.presence.topics import Topics
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


@pytest.mark.parametrize("has_stats", [True, False])
def test_commands_to_the_gateway_are_entities_that_home_assistant_takes(has_stats: bool) -> None:
    levels = ("debug", "info")
    said = replace(
        documents(has_stats=has_stats), takes_commands=True, log_levels=levels, has_joining=True
    )
    document = said.gateway_device()
    assert objections("homeassistant", said.topic_of_gateway, document) == []
    components = json.loads(document)["components"]
    assert components["restart"]["command_topic"] == said.topics.commands + "restart"
    assert ("log_level" in components) is has_stats, "it is shown by the statistics"
    if has_stats:
        assert components["log_level"]["options"] == [*levels]
        assert components["permit_joining"]["platform"] == "switch"
    without = json.loads(replace(said, has_joining=False).gateway_device())
    assert "permit_joining" not in without["components"]


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
        "{{ value_json['sensors/kitchen']['battery'] if 'battery' in "
        "(value_json | default({}, true)).get('sensors/kitchen', {}) else '' }}"
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
    template = "{{ 'online' if value_json is defined and value_json.available else 'offline' }}"
    assert device["value_template"] == template, "it bears an empty payload"
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


def test_the_words_of_the_configuration_are_those_of_home_assistant() -> None:
    assert set(STATE_CLASSES) == set(classes.STATE_CLASSES)
    assert set(classes.SENSOR_UNITS) <= set(classes.SENSOR_CLASSES)
    assert set(classes.SENSOR_STATE_CLASSES) <= set(classes.SENSOR_CLASSES)
    for device_class in (*classes.SENSOR_CLASSES, *classes.BINARY_CLASSES):
        assert DeviceClass(1, 64).read(device_class) == device_class
    for wrong in ("warmth", 7):
        with pytest.raises(MismatchError, match="device class of Home Assistant"):
            DeviceClass(1, 64).read(wrong)
    assert Icon(1, 96).read("mdi:water-pump") == "mdi:water-pump"
    with pytest.raises(MismatchError, match="name of an icon"):
        Icon(1, 96).read("water pump")


# What a value is


def known(name: str, unit: str = "", kind: Kind = Kind.NUMBER) -> KnownValue:
    return KnownValue("sensors/kitchen", name, kind, unit)


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [
        ("t", "°C", ("°C", "temperature", "measurement")),
        ("t", "°F", ("°F", "temperature", "measurement")),
        ("p", "kPa", ("kPa", "pressure", "measurement")),
        ("q", "m3/s", ("m³/s", "volume_flow_rate", "measurement")),
        ("rain", "mm/h", ("mm/h", "precipitation_intensity", "measurement")),
        ("lat", "lat", ("°", None, "measurement")),
        ("e", "kvarh", ("kvarh", "reactive_energy", "total_increasing")),
        ("x", "furlong", ("furlong", None, "measurement")),
        ("x", "", (None, None, None)),  # a unit may come yet
        ("x", "mixed", (None, None, None)),
        ("n", "count", (None, None, "measurement")),
        ("temperature", "", ("°C", "temperature", "measurement")),
        ("Outdoor temp_f", "", ("°F", "temperature", "measurement")),
        ("boiler_temp_c", "", ("°C", "temperature", "measurement")),
        ("phase_a", "", (None, None, None)),
        ("co2_ppm", "", ("ppm", "carbon_dioxide", "measurement")),
        ("co2", "ppm", ("ppm", "carbon_dioxide", "measurement")),
        ("battery", "", ("%", "battery", "measurement")),
        ("soilMoisture", "%", ("%", "moisture", "measurement")),
        ("valve", "%", ("%", None, "measurement")),
        ("pm2.5", "ug/m3", ("µg/m³", "pm25", "measurement")),
        ("pressure", "", (None, None, None)),
        ("pressure_hpa", "", ("hPa", "pressure", "measurement")),
        ("seq", "", (None, None, None)),
    ],
)
def test_a_number_is_what_its_unit_or_name_says(
    name: str, unit: str, expected: tuple[str | None, ...]
) -> None:
    found = entity(known(name, unit))
    fields = ("unit_of_measurement", "device_class", "state_class")
    assert tuple(found.get(each) for each in fields) == expected


def test_what_a_device_says_of_itself_is_diagnostic() -> None:
    assert entity(known("rssi"))["entity_category"] == "diagnostic"
    assert entity(known("seq"))["enabled_by_default"] is False
    shown = entity(
        known("seq"), ValueOptions("seq", entity_category="none", enabled_by_default=True)
    )
    assert "entity_category" not in shown
    assert shown["enabled_by_default"] is True


def test_the_operator_has_the_last_word_on_how_it_is_shown() -> None:
    options = ValueOptions(
        "co2",
        topic="sensors/+",
        client="kitchen-*",
        precision=1,
        icon="mdi:molecule-co2",
    )
    found = entity(known("co2"), options)
    assert found["suggested_display_precision"] == 1
    assert found["icon"] == "mdi:molecule-co2"
    assert "icon" not in entity(known("co2"), ValueOptions("co2", topic="+", icon="mdi:no"))


def test_a_text_that_the_operator_calls_a_number_is_one() -> None:
    options = ValueOptions("t", device_class="temperature", unit="°C")
    found = entity(known("t", kind=Kind.TEXT), options)
    assert found["unit_of_measurement"] == "°C"
    assert found["state_class"] == "measurement"


def test_a_number_or_text_that_is_called_a_door_is_a_binary_sensor() -> None:
    for kind in (Kind.NUMBER, Kind.TEXT):
        found = entity(known("open", kind=kind), ValueOptions("open", device_class="door"))
        assert found["platform"] == "binary_sensor"
        assert found["device_class"] == "door"
        assert "'open'" in found["value_template"]
    one = entity(known("leak", kind=Kind.TEXT), ValueOptions("leak", payload_on="WET"))
    assert "in ['wet'] else 'OFF'" in one["value_template"]
    other = entity(known("leak", kind=Kind.TEXT), ValueOptions("leak", payload_off="dry"))
    assert "in ['dry'] else 'ON'" in other["value_template"]
    assert entity(known("leak", kind=Kind.BOOLEAN))["device_class"] == "moisture"
    assert (
        entity(known("battery", "%EL"), ValueOptions("battery", device_class="battery"))["platform"]
        == "sensor"
    )


def test_a_text_of_a_few_is_an_enumeration() -> None:
    options = ValueOptions("mode", options=("idle", "running"))
    found = entity(known("mode", kind=Kind.TEXT), options)
    assert (found["device_class"], found["options"]) == ("enum", ["idle", "running"])
    assert entity(known("mode"), options)["options"] == ["idle", "running"]
    at = entity(known("at", kind=Kind.TEXT), ValueOptions("at", device_class="timestamp"))
    assert at["device_class"] == "timestamp"


@pytest.mark.parametrize(
    ("value", "options", "why"),
    [
        (known("a", kind=Kind.BOOLEAN), {"device_class": "temperature"}, "it is a boolean"),
        (known("a", kind=Kind.BOOLEAN), {"unit": "°C"}, "unit: it is a binary sensor"),
        (known("a", kind=Kind.TEXT), {"device_class": "battery"}, "it is a text"),
        (known("a"), {"device_class": "timestamp"}, "it is a number"),
        (known("a"), {"device_class": "temperature"}, "no unit: temperature goes with"),
        (known("a", "%"), {"device_class": "temperature"}, "with unit %: temperature goes"),
        (known("a", "m"), {"device_class": "ph"}, "ph has no unit"),
        (known("a", "m"), {"device_class": "power_factor"}, "goes with % or no unit"),
        (known("a", "Cel"), {"state_class": "total"}, "temperature goes with measurement"),
        (known("a", "m"), {"state_class": "measurement_angle"}, "goes with °"),
    ],
)
def test_what_home_assistant_would_refuse_is_left_out_and_said(
    value: KnownValue, options: dict[str, Any], why: str
) -> None:
    said = documents(ValueOptions("a", **options))
    document = said.entries("kitchen-1", [value])
    assert [why in each for _, each in document.left_out] == [True]
    payload = said.document("kitchen-1", document.entries)
    assert objections("homeassistant", said.topic_of("kitchen-1"), payload) == []


@pytest.mark.parametrize(
    ("unit", "options", "expected"),
    [
        ("", {"device_class": "humidity"}, ("%", "humidity", "measurement")),
        ("%RH", {"unit": "%"}, ("%", "humidity", "measurement")),
        ("Cel", {"unit": "K"}, ("K", "temperature", "measurement")),
        ("Cel", {"unit": "Wh"}, ("Wh", "energy", "total_increasing")),
        ("", {"unit": "mAh"}, ("mAh", None, "measurement")),
        ("m3", {"device_class": "water"}, ("m³", "water", "total_increasing")),
        ("", {"device_class": "monetary", "unit": "EUR"}, ("EUR", "monetary", "total")),
        ("deg", {"device_class": "wind_direction"}, ("°", "wind_direction", "measurement_angle")),
        ("", {"state_class": "total"}, (None, None, "total")),
    ],
)
def test_what_the_operator_leaves_open_follows(
    unit: str, options: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    found = entity(known("a", unit), ValueOptions("a", **options))
    fields = ("unit_of_measurement", "device_class", "state_class")
    assert tuple(found.get(each) for each in fields) == expected


def test_two_values_of_one_name_are_told_apart_by_their_topics() -> None:
    values = [
        KnownValue(f"house/{room}/air", "temperature", Kind.NUMBER, "Cel")
        for room in ("attic", "cellar")
    ]
    values.append(KnownValue("house/attic/air", "humidity", Kind.NUMBER, "%RH"))
    names = [each["name"] for each in announced(*values)["components"].values()]
    assert names == ["Temperature attic", "Temperature cellar", "Humidity", "State", "Last seen"]
    same = ValueOptions("a", label="Same"), ValueOptions("b", label="Same")
    components = announced(known("a"), known("b"), value_options=same)["components"]
    assert [each["name"] for each in components.values()][:2] == ["Same", "Same"]


# Ids


def test_the_id_of_an_announcement_is_kept_whatever_the_gateway_is_called_since() -> None:
    said, old = documents(), "homeassistant/device/tidegate_old_2ftank/config"
    for wrong in ("other/device/tidegate_old_2ftank/config", "tidegate/old/clients/tank"):
        said.keep_id("tank", wrong)
        assert said.topic_of("tank") == "homeassistant/device/tidegate_greenhouse_2ftank/config"
    said.keep_id("tank", old)
    assert said.topic_of("tank") == old
    said.forget("tank")
    assert said.topic_of("tank") != old


def test_the_gateways_page_is_a_link_where_there_is_one() -> None:
    device = json.loads(documents().gateway_device())["device"]
    assert "configuration_url" not in device
    linked = dataclasses.replace(documents(), page_url="http://greenhouse:8080/")
    device = json.loads(linked.gateway_device())["device"]
    assert device["configuration_url"] == "http://greenhouse:8080/"
    assert device["manufacturer"] == "Tidegate"
    document = json.loads(linked.device("a/b c", [BATTERY]))
    assert document["device"]["configuration_url"] == "http://greenhouse:8080/#/devices/a%2Fb%20c"
    document = json.loads(linked.device("topic:yard", [BATTERY]))
    assert "configuration_url" not in document["device"]


def test_a_button_is_an_event_where_what_can_happen_is_listed() -> None:
    button = KnownValue("kitchen/button", "action", Kind.TEXT)
    pushed = KnownValue("kitchen/pad", "key", Kind.NUMBER)
    said = documents(
        ValueOptions("action", options=("single", "double"), icon="mdi:gesture-tap"),
        ValueOptions("key", options=("1", "2"), event=True),
    )
    document = said.device("kitchen-1", [button, pushed])
    assert objections("homeassistant", said.topic_of("kitchen-1"), document) == []
    components = json.loads(document)["components"]
    one, other = (each for each in components.values() if each["platform"] == "event")
    assert one["event_types"] == ["single", "double"]
    assert (one["name"], one["device_class"]) == ("Action", "button")
    assert one["state_topic"] == "site-7/tidegate/greenhouse/events/kitchen-1"
    assert "value_json.topic == 'kitchen/button'" in one["value_template"]
    assert "device_class" not in other
    without = documents(ValueOptions("key", event=True)).device("kitchen-1", [button, pushed])
    assert not any(
        each["platform"] == "event" for each in json.loads(without)["components"].values()
    )


def test_what_can_happen_is_a_trigger_of_the_device_too() -> None:
    button = KnownValue("kitchen/button", "action", Kind.TEXT)
    other = KnownValue("kitchen/pad", "action", Kind.TEXT)
    said = documents(
        ValueOptions("action", topic="kitchen/pad", options=("on/off",), label="Pad"),
        ValueOptions("action", options=("single", "double")),
    )
    document = said.device("kitchen-1", [button, other])
    assert objections("homeassistant", said.topic_of("kitchen-1"), document) == []
    triggers = [
        each
        for each in json.loads(document)["components"].values()
        if each["platform"] == "device_automation"
    ]
    assert [(each["type"], each["subtype"], each["payload"]) for each in triggers] == [
        ("Action", "single", "single"),
        ("Action", "double", "double"),
        ("Pad", "on/off", "on/off"),
    ]
    for each in triggers:
        assert each["topic"] == "site-7/tidegate/greenhouse/events/kitchen-1"
        assert "value_json.name == 'action' else" in each["value_template"]


@pytest.mark.parametrize(("client_id", "option"), [("{{ 1 }}", "single"), ("kitchen-1", "{% x %}")])
def test_what_would_be_run_as_a_template_is_no_trigger(client_id: str, option: str) -> None:
    button = KnownValue("kitchen/button", "action", Kind.TEXT)
    said = documents(ValueOptions("action", options=(option,)))
    components = json.loads(said.device(client_id, [button]))["components"].values()
    platforms = [each["platform"] for each in components]
    assert "event" in platforms
    assert "device_automation" not in platforms


def test_of_two_buttons_of_one_label_the_first_has_triggers() -> None:
    # With the topic the second one is called as the first, whose value has it in its name.
    values = [KnownValue("a", "key b", Kind.TEXT), *(KnownValue(t, "key", Kind.TEXT) for t in "bc")]
    options = [ValueOptions(name, options=("1", "2"), event=True) for name in ("key", "key b")]
    said = documents(*options)
    document = said.device("kitchen-1", values)
    assert objections("homeassistant", said.topic_of("kitchen-1"), document) == []
    components = json.loads(document)["components"].values()
    assert [each["type"] for each in components if "type" in each] == ["Key b"] * 2 + ["Key c"] * 2


def test_the_operator_says_what_a_device_is() -> None:
    said = dataclasses.replace(
        documents(),
        device_options=[
            DeviceOptions("kitchen-1", name="Oven", area="Kitchen"),
            DeviceOptions("kitchen-*", area="Elsewhere", manufacturer="Acme", model="T 2"),
        ],
    )
    document = said.device("kitchen-1", [BATTERY])
    assert objections("homeassistant", said.topic_of("kitchen-1"), document) == []
    device = json.loads(document)["device"]
    assert (device["name"], device["suggested_area"]) == ("Oven", "Kitchen")
    assert (device["manufacturer"], device["model"]) == ("Tidegate", "MQTT-SN device")
    device = json.loads(said.device("kitchen-2", [BATTERY]))["device"]
    assert (device["name"], device["suggested_area"]) == ("kitchen-2", "Elsewhere")
    assert (device["manufacturer"], device["model"]) == ("Acme", "T 2")
    assert "suggested_area" not in json.loads(said.device("hall", [BATTERY]))["device"]


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        (None, None),
        (("127.0.0.1", 8080), None),
        (("::1", 8080), None),
        (("localhost", 8080), None),
        (("10.0.0.5", 0), None),
        (("10.0.0.5", 8080), "http://10.0.0.5:8080/"),
        (("fd00::5", 8080), "http://[fd00::5]:8080/"),
        (("greenhouse.lan", 8080), "http://greenhouse.lan:8080/"),
        (("0.0.0.0", 8080), f"http://{gethostname()}:8080/"),
    ],
)
def test_the_link_is_one_that_other_machines_can_open(
    listen: tuple[str, int] | None, expected: str | None
) -> None:
    assert page_url(None if listen is None else HostPort(*listen)) == expected
