"""Entities in Home Assistant: they come, change and go as its own pages show it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.presence.homeassistant.late_units import SETTLES_S
from hil.rig.mosquitto import Mosquitto
from tests.home_assistant.api import eventually, now
from tests.home_assistant.home import Home
from tests.home_assistant.site import DENIED_USER, ENABLED, Gateway, gateway, new_name, sensor
from tests.home_assistant.test_values import senml


def value(name: str, **keys: object) -> str:
    """An override in the configuration."""
    lines = [f"{key} = {toml(each)}" for key, each in {"name": name, **keys}.items()]
    return "\n".join(["[[home_assistant_value]]", *lines, ""])


def toml(each: object) -> str:
    return json.dumps(each, ensure_ascii=False)


NOTHING = (None, "unknown", "unavailable")

# What an announcement no longer has


def test_a_value_that_is_hidden_is_gone(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank:
        tank.connect()
        tank.publish("site/tank", {"level": 1, "interval": 60})
        home.api.shows(tank.client_id, Level="1", Interval="60")
        serving.configure(value("interval", hide=True))
        serving.restart()
        name = tank.client_id
        eventually(lambda: "Interval" not in home.api.entities(name), "it is gone")
        home.restart()
        home.api.shows(name, Level="1")
        assert "Interval" not in home.api.entities(name)


@pytest.mark.parametrize("first", [1, True])
def test_a_number_or_boolean_that_becomes_a_text_is_one(
    home: Home, serving: Gateway, first: object
) -> None:
    with sensor(serving) as tank:
        tank.connect()
        tank.publish("site/tank", {"level": first})
        home.api.shows(tank.client_id, Level="1" if first is not True else "on")
        tank.publish("site/tank", {"level": "full"})
        home.api.shows(tank.client_id, Level="full")
        assert home.api.entity_id(tank.client_id, "Level").startswith("sensor.")


def test_a_device_that_is_forgotten_is_gone(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank:
        tank.connect()
        tank.publish("site/tank", {"level": 1})
        home.api.shows(tank.client_id, Level="1")
        name = tank.client_id
        serving.forget(name)
        eventually(lambda: home.api.device(name) is None, "the device is gone")


def test_a_gateway_with_another_name_keeps_ids_names_and_history(
    home: Home, serving: Gateway
) -> None:
    began = now()
    with sensor(serving) as tank:
        tank.connect()
        tank.publish("site/tank", {"level": 1, "door": True})
        home.api.shows(tank.client_id, Level="1", Door="on")
        entity_id = home.api.entity_id(tank.client_id, "Level")
        home.api.ask("config/entity_registry/update", entity_id=entity_id, name="Rain")
        before = serving.name
        serving.stop()
        serving.named(f"{before}-new")
        serving.start()
        tank.connect()
        tank.publish("site/tank", {"level": 2})
        home.api.shows(tank.client_id, Level="2", Door="on")
        assert home.api.entity_id(tank.client_id, "Level") == entity_id
        assert home.api.states()[entity_id]["attributes"]["friendly_name"].endswith("Rain")

        def seen() -> list[str]:
            return [each for each in home.api.history(entity_id, began) if each.isdigit()]

        # Unavailable between, and then as it was.
        eventually(lambda: seen() == ["1", "1", "2"], "both are in its history")
        eventually(lambda: home.api.device(f"Tidegate {before}") is None, "the old one is gone")
        assert home.api.device(f"Tidegate {before}-new") is not None
        # Home Assistant clears the topic of a device once more for each entity that was disabled.
        assert all("No device components to cleanup" in each for each in home.complaints())


def test_a_sensor_that_moves_to_another_gateway_is_the_same_device(
    home: Home, broker: Mosquitto, serving: Gateway, tmp_path: Path
) -> None:
    with gateway(tmp_path / "other", broker) as other:
        with sensor(serving) as tank:
            tank.visit("site/tank", {"level": 1})
            home.api.shows(tank.client_id, Level="1")
        with sensor(other, tank.client_id) as moved:
            for number in range(2, 6):
                moved.visit("site/tank", {"level": number})
        name = tank.client_id
        eventually(
            lambda: any(
                each["state"] == "5"
                for each in home.api.states().values()
                if name in each["attributes"].get("friendly_name", "")
            ),
            "its new value is shown",
        )
        home.api.shows(name, Level="5")  # which refuses two devices of one name


# What the broker or the operator does


def test_a_broker_that_denies_announcements_is_an_alarm(
    home: Home, broker: Mosquitto, tmp_path: Path
) -> None:
    with (
        gateway(tmp_path / "gateway", broker, user=DENIED_USER) as serving,
        sensor(serving) as tank,
    ):
        tank.connect()
        tank.publish("site/tank", {"level": 1})
        eventually(lambda: "announcement_refused" in serving.verb("status", "--json"), "an alarm")
        assert home.api.device(tank.client_id) is None


@pytest.mark.parametrize("sent", [1, "open", True])
def test_the_documented_override_of_a_door_takes_each_form(
    home: Home, broker: Mosquitto, tmp_path: Path, sent: object
) -> None:
    config = ENABLED + value("open", device_class="door")
    with gateway(tmp_path / "gateway", broker, config) as serving, sensor(serving) as door:
        door.connect()
        door.publish("site/door", {"open": sent})
        home.api.shows(door.client_id, Open="on")
        assert home.api.entity_id(door.client_id, "Open").startswith("binary_sensor.")


def test_a_number_in_a_text_is_a_number_where_the_operator_says_so(
    home: Home, broker: Mosquitto, tmp_path: Path
) -> None:
    config = ENABLED + value("t", device_class="temperature", unit="°C", precision=1)
    with gateway(tmp_path / "gateway", broker, config) as serving, sensor(serving) as tank:
        tank.connect()
        tank.publish("site/tank", {"t": "21.5"})
        home.api.shows(tank.client_id, T="21.5")
        entity_id = home.api.entity_id(tank.client_id, "T")
        assert home.api.states()[entity_id]["attributes"]["unit_of_measurement"] == "°C"
        eventually(lambda: means(home, entity_id)[-1:] == [21.5], "statistics")


def means(home: Home, entity_id: str) -> list[float]:
    return [row["mean"] for row in home.api.statistics(entity_id)]


REFUSED = (
    {"device_class": "temperature", "unit": "mAh"},
    {"device_class": "humidity", "unit": "°C"},
    {"device_class": "power", "unit": "%"},
    {"state_class": "measurement_angle", "unit": "%"},
    {"device_class": "timestamp", "unit": "s"},
)
TAKEN = (
    {"device_class": "absolute_humidity", "unit": "g/m³"},
    {"device_class": "pm4", "unit": "μg/m³"},
    {"device_class": "reactive_energy", "unit": "kvarh"},
    {"device_class": "temperature_delta", "unit": "°C"},
)


@pytest.mark.parametrize("keys", REFUSED, ids=lambda keys: "-".join(keys.values()))
def test_check_refuses_what_home_assistant_would_refuse(
    broker: Mosquitto, tmp_path: Path, keys: dict[str, str]
) -> None:
    never_started = Gateway(tmp_path, broker, ENABLED + value("x", **keys))
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        never_started.verb("check")
    assert refusal.value.returncode == 78


def test_classes_of_this_home_assistant_are_shown(
    home: Home, broker: Mosquitto, tmp_path: Path
) -> None:
    config = ENABLED + "".join(value(f"v{n}", **keys) for n, keys in enumerate(TAKEN))
    with gateway(tmp_path / "gateway", broker, config) as serving, sensor(serving) as tank:
        serving.verb("check")
        tank.connect()
        tank.publish("site/tank", {f"v{n}": n for n in range(len(TAKEN))})
        home.api.shows(tank.client_id, **{f"V{n}": str(n) for n in range(len(TAKEN))})
        for number, keys in enumerate(TAKEN):
            assert attributes(home, tank.client_id, f"V{number}") == keys


def attributes(home: Home, device: str, name: str) -> dict[str, str]:
    """Class and unit, as far as it has them."""
    state = home.api.state(device, name)
    assert state is not None, f"{device} has no {name}"
    named = {"device_class": "device_class", "unit": "unit_of_measurement"}
    found = state["attributes"]
    return {key: found[one] for key, one in named.items() if one in found}


def state_class(home: Home, device: str, name: str) -> str | None:
    state = home.api.state(device, name)
    assert state is not None, f"{device} has no {name}"
    found: str | None = state["attributes"].get("state_class")
    return found


# Units


@contextmanager
def forgotten_afterwards(gateway: Gateway, client_id: str) -> Iterator[None]:
    """Home Assistant complains of its statistics as long as the device is there."""
    try:
        yield
    finally:
        gateway.forget(client_id)


def test_a_unit_that_is_set_later_leaves_statistics_whole(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank, forgotten_afterwards(serving, tank.client_id):
        tank.connect()
        tank.publish("site/tank", {"pressure": 1000})
        home.api.shows(tank.client_id, Pressure="1000")
        entity_id = home.api.entity_id(tank.client_id, "Pressure")
        assert home.api.statistics(entity_id) == []
        serving.configure(value("pressure", unit="hPa", device_class="pressure"))
        serving.restart()
        tank.connect()
        tank.publish("site/tank", {"pressure": 1001})
        home.api.shows(tank.client_id, Pressure="1001")
        expected = {"unit": "hPa", "device_class": "pressure"}
        eventually(lambda: attributes(home, tank.client_id, "Pressure") == expected, "its unit")
        assert home.api.statistics(entity_id) == [], "of a time in which it had no unit"
        assert home.api.statistics_issues(entity_id) == []


def test_a_unit_that_comes_later_leaves_statistics_whole(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank, forgotten_afterwards(serving, tank.client_id):
        tank.connect()
        tank.publish("site/tank", senml({"n": "level", "v": 1}))
        home.api.shows(tank.client_id, Level="1")
        entity_id = home.api.entity_id(tank.client_id, "Level")
        assert home.api.statistics(entity_id) == []
        tank.publish("site/tank", senml({"n": "level", "u": "m", "v": 2}))
        home.api.shows(tank.client_id, Level="2")
        eventually(lambda: attributes(home, tank.client_id, "Level").get("unit") == "m", "its unit")
        assert home.api.statistics(entity_id) == [], "of a time in which it had no unit"
        eventually(
            lambda: state_class(home, tank.client_id, "Level") == "measurement",
            "its state class",
            timeout_s=SETTLES_S + 60,
        )
        eventually(lambda: home.api.statistics(entity_id) != [], "statistics")
        assert home.api.statistics_issues(entity_id) == []


def test_values_of_one_name_have_their_topics_in_their_names(
    home: Home, broker: Mosquitto, tmp_path: Path
) -> None:
    config = ENABLED + value("level", topic="site/+/low", label="Depth")
    with gateway(tmp_path / "gateway", broker, config) as serving, sensor(serving) as tank:
        tank.connect()
        for place, level in (("top", 1), ("middle", 2), ("low", 3)):
            tank.publish(f"site/tank/{place}", {"level": level})
        expected = {"Level top": "1", "Level middle": "2", "Depth": "3"}
        home.api.shows(tank.client_id, **expected)


UNITS = {
    "°C": ("temperature", "°C"),
    "°F": ("temperature", "°C"),  # as this Home Assistant's unit system has it
    "bar": ("pressure", "bar"),
    "kPa": ("pressure", "kPa"),
    "mbar": ("pressure", "mbar"),
    "m3/s": ("volume_flow_rate", "m³/s"),
    "l/s": ("volume_flow_rate", "L/s"),
    "bit/s": ("data_rate", "bit/s"),
    "B": ("data_size", "B"),
    "kVA": ("apparent_power", "kVA"),
    "kvar": ("reactive_power", "kvar"),
    "varh": ("reactive_energy", "varh"),
    "mm/h": ("precipitation_intensity", "mm/h"),
    "Cel": ("temperature", "°C"),
    "%RH": ("humidity", "%"),
    "%EL": ("battery", "%"),
    "V": ("voltage", "V"),
}
ANGLES = ("lat", "lon", "deg")


def test_units_have_their_classes(home: Home, serving: Gateway) -> None:
    units = [*UNITS, *ANGLES]
    with sensor(serving) as tank:
        tank.connect()
        records = [{"n": f"v{n}", "u": unit, "v": 40} for n, unit in enumerate(units)]
        tank.publish("site/tank", senml(*records))
        name = tank.client_id
        eventually(lambda: len(home.api.entities(name)) == len(units) + 2, "all of them")
        found = {unit: attributes(home, name, f"V{n}") for n, unit in enumerate(units)}
        expected = {
            unit: {"device_class": kind, "unit": own} for unit, (kind, own) in UNITS.items()
        }
        assert found == expected | {
            "lat": {"unit": "°"},
            "lon": {"unit": "°"},
            "deg": {"unit": "°"},
        }


# What a device is, and what happens there


def test_versions_of_a_device_that_declares_commands_are_on_its_page(
    home: Home, serving: Gateway
) -> None:
    with sensor(serving, new_name("node")) as node:
        node.connect()
        for app in (7, 8):
            state = {"commands": ["restart"], "app": app, "hw_version": "B2"}
            node.publish(f"sensors/{node.client_id}/state", state)
            expected = (str(app), "B2")
            eventually(lambda: versions(home, node.client_id) == expected, f"version {app}")  # noqa: B023
        serving.restart()
        home.api.shows(f"Tidegate {serving.name}", Online="on")
        assert versions(home, node.client_id) == ("8", "B2")


def versions(home: Home, name: str) -> tuple[str, str] | None:
    device = home.api.device(name)
    return None if device is None else (device["sw_version"], device["hw_version"])


def test_what_can_happen_at_a_button_is_a_trigger_of_its_device(
    home: Home, broker: Mosquitto, tmp_path: Path
) -> None:
    config = ENABLED + value("action", options=["single", "double"])
    with gateway(tmp_path / "gateway", broker, config) as serving, sensor(serving) as button:
        name, api = button.client_id, home.api
        button.connect()

        def is_received() -> bool:
            """Home Assistant has subscribed to the events of this device."""
            button.publish("site/button", {"action": "single"})
            known = [each["entity_id"] for each in api.entity_list(name)]
            shown = api.states()
            return any(
                each.startswith("event.") and shown.get(each, {}).get("state") not in NOTHING
                for each in known
            )

        eventually(is_received, "an event", interval_s=1)
        eventually(lambda: len(api.triggers(name)) == 2, "both triggers")
        triggers = {each["subtype"]: each for each in api.triggers(name)}
        assert {(each["type"], subtype) for subtype, each in triggers.items()} == {
            ("Action", "single"),
            ("Action", "double"),
        }
        for happening in ("double", "single"):
            assert api.is_triggered(
                triggers[happening],
                lambda: button.publish("site/button", {"action": happening}),  # noqa: B023
            )
        serving.config_path.write_text(
            serving.config_path.read_text().replace('["single", "double"]', '["single"]')
        )
        serving.restart()
        eventually(lambda: [each["subtype"] for each in api.triggers(name)] == ["single"], "one")


# The gateway's own device


def test_the_gateway_is_a_device_that_its_sensors_name(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank:
        tank.connect()
        tank.publish("site/tank", {"level": 1})
        home.api.shows(tank.client_id, Level="1")
        own, device = (
            home.api.device(each) for each in (f"Tidegate {serving.name}", tank.client_id)
        )
        assert own is not None
        assert device is not None
        assert device["via_device_id"] == own["id"]
        assert (own["manufacturer"], own["model"]) == ("Tidegate", "MQTT-SN gateway")
        home.api.shows(own["name"], Online="on", Devices="1", Devices_awake="1", Dropped="0")
        serving.kill()
        home.api.shows(own["name"], Online="off")
        home.api.shows(tank.client_id, Level="unavailable")
