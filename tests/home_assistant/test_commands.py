"""Commands of Home Assistant: they arrive at the device, whose reports are their states."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.presence.gateway_commands import RESTART_EVERY_S
from hil.rig.mosquitto import Mosquitto
from tests.home_assistant.api import eventually
from tests.home_assistant.home import Home
from tests.home_assistant.site import ENABLED, Gateway, Sensor, gateway, new_name, sensor

COMMANDS = """
[[home_assistant_command]]
name = "interval"
kind = "number"
topic = "{client}/set/interval"
payload = '{"interval_s": {value}}'
state = "interval_s"
min = 5
max = 3600
unit = "s"

[[home_assistant_command]]
name = "valve"
kind = "switch"
topic = "{client}/set/valve"
payload_on = "open"
payload_off = "close"
state = "open"

[[home_assistant_command]]
name = "rinse"
kind = "button"
topic = "{client}/set/rinse"
payload_press = "now"

[[home_assistant_command]]
name = "mode"
kind = "select"
topic = "{client}/set/mode"
options = ["eco", "boost"]
state = "mode"

[[home_assistant_command]]
name = "note"
kind = "text"
topic = "{client}/set/note"
payload = '{"note": {value}}'
state = "note"

[[home_assistant_command]]
name = "lamp"
kind = "light"
topic = "{client}/set/lamp"
state = "lamp"

[[home_assistant_command]]
name = "blind"
kind = "switch"
topic = "{client}/set/blind"
"""
AT_FIRST = {"interval_s": 60, "open": False, "mode": "eco", "note": "none", "lamp": False}
# An entity, the action and what it is given, what the device receives, what it reports then, and
# what is shown.
ROWS: list[tuple[str, str, dict[str, Any], str, dict[str, Any], str]] = [
    ("Interval", "set_value", {"value": 90}, '{"interval_s": 90}', {"interval_s": 90}, "90"),
    ("Valve", "turn_on", {}, "open", {"open": True}, "on"),
    ("Valve", "turn_off", {}, "close", {"open": False}, "off"),
    ("Mode", "select_option", {"option": "boost"}, "boost", {"mode": "boost"}, "boost"),
    ("Note", "set_value", {"value": 'a "b"'}, '{"note": "a \\"b\\""}', {"note": "x"}, "x"),
    ("Lamp", "turn_on", {}, "ON", {"lamp": True}, "on"),
    ("Lamp", "turn_off", {}, "OFF", {"lamp": False}, "off"),
]


@pytest.fixture
def commanding(tmp_path: Path, broker: Mosquitto, home: Home) -> Iterator[Gateway]:
    del home  # which must not see this gateway go
    with gateway(tmp_path / "gateway", broker, ENABLED + COMMANDS) as running:
        yield running


def listen(device: Sensor) -> None:
    device.connect()
    device.subscribe(f"{device.client_id}/set/+")


def test_a_command_of_each_kind_arrives_and_the_state_is_what_the_device_reports(
    home: Home, commanding: Gateway
) -> None:
    with sensor(commanding, new_name("actuator")) as device:
        name, api = device.client_id, home.api
        listen(device)
        api.shows(name, Interval="unknown", Valve="unknown", Mode="unknown", Blind="unknown")
        device.publish("site/actuator", AT_FIRST)
        api.shows(name, Interval="60", Valve="off", Mode="eco", Note="none", Lamp="off")
        reported = AT_FIRST
        for entity, action, given, received, then, shown in ROWS:
            word = entity.lower()
            before = api.state(name, entity)
            assert before is not None
            api.act(name, entity, action, **given)
            assert device.message() == (f"{name}/set/{word}", received)
            after = api.state(name, entity)
            assert after is not None
            assert after["state"] == before["state"], "the device has not reported it yet"
            reported = reported | then
            device.publish("site/actuator", reported)
            api.shows(name, **{entity: shown})
        api.act(name, "Rinse", "press")
        assert device.message() == (f"{name}/set/rinse", "now")
        api.act(name, "Blind", "turn_on")
        api.shows(name, Blind="on")  # as it has no state, what was sent counts for it
        assert device.message() == (f"{name}/set/blind", "ON")


def test_commands_wait_for_a_device_that_sleeps_also_over_a_restart(
    home: Home, commanding: Gateway
) -> None:
    with sensor(commanding, new_name("actuator")) as device:
        name, api = device.client_id, home.api
        listen(device)
        device.publish("site/actuator", AT_FIRST)
        api.shows(name, Interval="60", Valve="off", Commands_waiting="0")
        device.leave(sleep_s=600)
        api.shows(name, State="asleep")
        api.act(name, "Interval", "set_value", value=120)
        api.shows(name, Commands_waiting="1", Interval="60")
        api.act(name, "Valve", "turn_on")
        api.shows(name, Commands_waiting="2", Valve="off")
        commanding.restart()
        api.shows(name, Commands_waiting="2", State="asleep")
        assert device.wake() == [
            (f"{name}/set/interval", '{"interval_s": 120}'),
            (f"{name}/set/valve", "open"),
        ]
        api.shows(name, Commands_waiting="0")
        device.connect()
        device.publish("site/actuator", AT_FIRST | {"interval_s": 120, "open": True})
        api.shows(name, Interval="120", Valve="on")


def test_commands_that_a_device_declares_arrive_and_its_update_shows_its_progress(
    home: Home, serving: Gateway
) -> None:
    with sensor(serving, new_name("node")) as node:
        name, api = node.client_id, home.api
        base = f"sensors/{name}"
        node.connect()
        node.subscribe(f"{base}/set/+")
        node.subscribe(f"{base}/install")
        declared = {"commands": ["interval_s", "restart", "update"], "interval_s": 900}
        node.publish(f"{base}/state", declared)

        def update(installed: str, percentage: int | None) -> None:
            state: dict[str, Any] = {"installed_version": installed, "latest_version": "8"}
            state |= {"in_progress": percentage is not None, "update_percentage": percentage}
            node.publish(f"{base}/update", state, retain=True)

        update("7", None)
        api.shows(name, Interval="900", Restart="unknown", Firmware="on")
        api.act(name, "Interval", "set_value", value=600)
        assert node.message() == (f"{base}/set/interval_s", "600")
        node.publish(f"{base}/state", declared | {"interval_s": 600})
        api.shows(name, Interval="600")
        api.act(name, "Restart", "press")
        assert node.message() == (f"{base}/set/restart", "PRESS")
        api.act(name, "Firmware", "install")
        assert node.message() == (f"{base}/install", "install")
        update("7", 40)
        eventually(lambda: progress(home, name) == (True, 40), "its progress")
        update("8", None)
        api.shows(name, Firmware="off")
        assert progress(home, name) == (False, None)


def progress(home: Home, device: str) -> tuple[bool, int | None]:
    state = home.api.state(device, "Firmware")
    assert state is not None
    return state["attributes"]["in_progress"], state["attributes"]["update_percentage"]


def test_the_gateway_takes_a_log_level_and_a_restart(home: Home, serving: Gateway) -> None:
    began, name, api = time.monotonic(), f"Tidegate {serving.name}", home.api
    api.shows(name, Log_level="info")
    api.act(name, "Log level", "select_option", option="debug")
    api.shows(name, Log_level="debug")
    time.sleep(max(0.0, began + RESTART_EVERY_S - time.monotonic()))  # none sooner
    api.act(name, "Restart", "press")
    eventually(lambda: serving.connections == 2, "it has started itself again")
    api.shows(name, Online="on", Log_level="info")
