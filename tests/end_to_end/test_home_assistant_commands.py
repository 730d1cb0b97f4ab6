"""What Home Assistant sends reaches a sensor that sleeps, and what waits is seen meanwhile.

Home Assistant's part is played by a subscriber that publishes to the topic of the announcement.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.end_to_end.on_air import (
    ACCEPTED,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBLISH,
    Node,
    node,
    serving,
    story,
)
from tests.support.application import application
from tests.support.home_assistant import objections
from tests.support.notices import Listener

TANK = "homeassistant/device/tidegate_under-test_2ftank/config"
VALUES = "tidegate/under-test/values/tank"
CLIENT = "tidegate/under-test/clients/tank"
SET = "tank/set"
CONFIG = """[home_assistant]
enable = true
[[home_assistant_command]]
name = "interval"
kind = "number"
topic = "{client}/set"
state = "interval_s"
payload = '{"interval_s": {value}}'
min = 5
max = 3600
"""


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


async def falls_asleep(sensor: Node) -> None:
    await sensor.ask(DISCONNECT, u16(600), DISCONNECT)


async def wakes_up(sensor: Node) -> list[tuple[int, bytes]]:
    """The messages that waited; they are acknowledged."""
    await sensor.say(PINGREQ, b"tank")
    found: list[tuple[int, bytes]] = []
    while True:
        kind, body = await sensor.hear()
        if kind == PINGRESP:
            return found
        assert kind == PUBLISH
        found.append((int.from_bytes(body[1:3], "big"), body[5:]))
        await sensor.say(PUBACK, body[1:5] + ACCEPTED)


def component(said: Listener, key: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said.last[TANK])["components"][key]
    return found


async def announced_with(said: Listener, *words: str) -> None:
    await said.until(lambda: all(word.encode() in said.last.get(TANK, b"") for word in words))


@story
async def test_a_command_waits_for_a_sleeper_and_is_seen_to_wait(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, broker, CONFIG) as gateway:
        async with application(broker, "#") as client, node(gateway.port, "tank") as sensor:
            said = Listener(client)
            await sensor.connect(clean=False)
            number = await sensor.subscribe(SET.encode(), qos=1)
            await announced_with(said, "command-interval")
            assert objections("homeassistant", TANK, said.last[TANK]) == []
            interval = component(said, "command-interval")
            assert interval["command_topic"] == SET
            await said.document(CLIENT, waiting=0)
            await falls_asleep(sensor)
            await client.publish(interval["command_topic"], b'{"interval_s": 60}', qos=1)
            await said.document(CLIENT, state="asleep", waiting=1)
            assert await wakes_up(sensor) == [(number, b'{"interval_s": 60}')]
            await said.document(CLIENT, waiting=0)
            reading = await sensor.register("tank/state")
            await sensor.connect(clean=False)
            await sensor.publish(reading, b'{"interval_s": 60}', qos=1)
            await said.document(VALUES, **{"tank/state": {"interval_s": 60}})
            await announced_with(said, "tank/state")
            assert "'tank/state'" in component(said, "command-interval")["value_template"]
            assert len(json.loads(said.last[TANK])["components"]) == 4


@story
async def test_a_command_that_is_too_old_is_not_delivered(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, broker, f"{CONFIG}expiry_s = 1\n") as gateway:
        async with application(broker, "#") as client, node(gateway.port, "tank") as sensor:
            said = Listener(client)
            await sensor.connect(clean=False)
            number = await sensor.subscribe(SET.encode(), qos=1)
            await falls_asleep(sensor)
            await client.publish(SET, b"5", qos=1)
            await said.until(lambda: SET in said.last)
            await asyncio.sleep(1.5)
            await client.publish(SET, b"6", qos=1)
            await said.until(lambda: said.last[SET] == b"6")
            assert await wakes_up(sensor) == [(number, b"6")]


@story
async def test_a_device_declares_its_commands_and_they_outlive_a_restart(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, broker, "[home_assistant]\nenable = true\n") as gateway:
        async with application(broker, "#") as client, node(gateway.port, "tank") as sensor:
            said = Listener(client)
            await sensor.connect(clean=False)
            number = await sensor.subscribe(b"tank/set/+", qos=1)
            assert number == 0, "a filter with a wildcard has no number"
            reading = await sensor.register("tank/state")
            state = {"commands": ["interval_s", "restart"], "interval_s": 60}
            await sensor.publish(reading, json.dumps(state).encode(), qos=1)
            key = "command-tank_2finterval_s"
            await announced_with(said, key)
            await said.document(VALUES, **{"tank/state": {"interval_s": 60}})
            await falls_asleep(sensor)
            await asyncio.to_thread(gateway.stop)
            said.last.clear()
            gateway.start()
            await announced_with(said, key)
            assert objections("homeassistant", TANK, said.last[TANK]) == []
            await client.publish(component(said, key)["command_topic"], b"30", qos=1)
            await said.document(CLIENT, waiting=1)
