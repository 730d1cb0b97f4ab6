"""Home Assistant's part is played by a subscriber and its birth message; broker and gateway are
real, and so are the octets of the readings.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import rmtree
from urllib.request import HTTPCookieProcessor, Request, build_opener

import cbor2
import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.end_to_end.on_air import DISCONNECT, PUBLISH, Node, node, serving, story
from tests.support.application import application
from tests.support.home_assistant import objections
from tests.support.notices import Listener

GATEWAY = "homeassistant/device/tidegate_under-test/config"
TANK = "homeassistant/device/tidegate_under-test_2ftank/config"
VALUES = "tidegate/under-test/values/tank"
CLIENT = "tidegate/under-test/clients/tank"
CLAIM = "tidegate/under-test/announced/tank"
CONFIG = "[home_assistant]\nenable = true\n"
TEMPERATURE = {0: "temperature", 1: "Cel", 2: 21.5}
BATTERY = {0: "battery", 1: "%EL", 2: 87}


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


async def publishes(sensor: Node, *records: dict[int, object]) -> None:
    number = await sensor.register("tank/senml")
    await sensor.publish(number, cbor2.dumps(list(records)), qos=1)


@asynccontextmanager
async def heard_once(
    broker: Mosquitto, gateway: GatewayProcess
) -> AsyncIterator[tuple[Listener, Node]]:
    """A device that said a temperature, and is announced with it."""
    async with application(broker, "#") as client, node(gateway.port, "tank") as sensor:
        said = Listener(client)
        await sensor.connect(clean=False)
        await publishes(sensor, TEMPERATURE)
        await announced_with(said, "temperature")
        await said.until(lambda: VALUES in said.last)
        yield said, sensor


async def announced_with(said: Listener, *names: str) -> None:
    await said.until(lambda: all(name.encode() in said.last.get(TANK, b"") for name in names))


@story
async def test_a_device_is_announced_with_what_its_readings_show(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, broker, CONFIG) as gateway:
        async with heard_once(broker, gateway) as (said, sensor):
            assert said.json(VALUES)["tank/senml"] == {"temperature": 21.5}
            await publishes(sensor, TEMPERATURE | {2: 22.5}, BATTERY)
            await announced_with(said, "temperature", "battery")
            await said.document(VALUES, **{"tank/senml": {"temperature": 22.5, "battery": 87}})
            for topic in (TANK, GATEWAY):
                assert objections("homeassistant", topic, said.last[topic]) == []


@story
async def test_values_outlive_a_gateway_that_is_killed(broker: Mosquitto, tmp_path: Path) -> None:
    with serving(tmp_path, broker, CONFIG) as gateway:
        async with heard_once(broker, gateway) as (said, sensor):
            await publishes(sensor, BATTERY)
            both = {"temperature": 21.5, "battery": 87}
            await said.document(VALUES, **{"tank/senml": both})
            await sensor.ask(DISCONNECT, u16(600), DISCONNECT)
            written = tmp_path / "state" / "announced.values.jsonl"
            while b"battery" not in (written.read_bytes() if written.exists() else b""):
                await said.count(len(said.messages) + 1)  # statistics, or another
            await asyncio.to_thread(gateway.kill)
            broker.kill()
            broker.start()
            gateway.start()
            await asyncio.to_thread(gateway.wait_until_connected)
        async with application(broker, "tidegate/#") as client:
            await Listener(client).document(VALUES, **{"tank/senml": both})


@story
async def test_a_pulse_reaches_home_assistant_whole(broker: Mosquitto, tmp_path: Path) -> None:
    with serving(tmp_path, broker, CONFIG) as gateway:
        async with heard_once(broker, gateway) as (said, sensor):
            await publishes(sensor, {0: "door", 4: False})
            await announced_with(said, "door")
            await said.until(lambda: b'"door":false' in said.last[VALUES])
            said.messages.clear()
            for door in (True, False):
                await publishes(sensor, {0: "door", 4: door})
            await said.until(lambda: doors(said)[:2] == [True, False])


def doors(said: Listener) -> list[bool]:
    documents = [json.loads(payload) for topic, payload in said.messages if topic == VALUES]
    return [document["tank/senml"]["door"] for document in documents]


@pytest.mark.parametrize("clean", [False, True])
@story
async def test_one_that_publishes_and_disconnects_at_once_appears_and_stays(
    broker: Mosquitto, tmp_path: Path, clean: bool
) -> None:
    with serving(tmp_path, broker, CONFIG) as gateway:
        async with application(broker, "#") as client:
            said = Listener(client)
            for value in (21.5, 22.5):
                async with node(gateway.port, "tank") as sensor:
                    await sensor.connect(clean=clean)
                    await publishes(sensor, TEMPERATURE | {2: value})
                    await sensor.leave()
                await said.document(VALUES, **{"tank/senml": {"temperature": value}})
            await announced_with(said, "temperature")
            await said.document(CLIENT, state="disconnected", available=True)
            await asyncio.to_thread(gateway.stop)
            said.last.clear()
            gateway.start()
            await asyncio.to_thread(gateway.wait_until_connected)
            await said.document(CLIENT, state="disconnected", available=True, last_seen=None)
            await said.document(VALUES, **{"tank/senml": {"temperature": 22.5}})


@story
async def test_a_sensor_that_never_connects_appears_by_its_topic(
    broker: Mosquitto, tmp_path: Path
) -> None:
    config = f'{CONFIG}[qos_minus_one]\nallow = true\n[predefined_topics]\n"barn/door" = 7\n'
    with serving(tmp_path, broker, config) as gateway:
        async with (
            application(broker, "tidegate/#") as client,
            node(gateway.port, "") as sensor,
        ):
            said = Listener(client)
            await sensor.say(PUBLISH, b"\x61" + u16(7) + u16(0) + b'{"open":true}')
            values = "tidegate/under-test/values/topic:barn%2Fdoor"
            await said.document(values, **{"barn/door": {"open": True}})
            await said.document(
                "tidegate/under-test/clients/topic:barn%2Fdoor", state="awake", available=True
            )


@story
async def test_a_sleeper_is_never_gone_inside_its_sleep(broker: Mosquitto, tmp_path: Path) -> None:
    """What Home Assistant's template makes of each state is in tests/notices."""
    with serving(tmp_path, broker, CONFIG) as gateway:
        async with heard_once(broker, gateway) as (said, sensor):
            await sensor.ask(DISCONNECT, u16(2), DISCONNECT)
            await said.document(CLIENT, state="lost")
            states = [json_state(payload) for topic, payload in said.messages if topic == CLIENT]
            asleep = states.index("asleep")
            assert states[asleep:] == ["asleep", "overdue", "lost"]


def json_state(payload: bytes) -> str:
    return payload.partition(b'"state":"')[2].partition(b'"')[0].decode()


@pytest.mark.parametrize("prefix", ["", "site-7/"])
@story
async def test_when_home_assistant_is_born_all_is_announced_again(
    broker: Mosquitto, tmp_path: Path, prefix: str
) -> None:
    """With a prefix its topic is none that a sensor could name."""
    config = CONFIG.replace("[home", f'topic_prefix = "{prefix}"\n[home')
    with serving(tmp_path, broker, config) as gateway:
        async with application(broker, "#") as client, node(gateway.port, "tank") as sensor:
            said = Listener(client)
            await sensor.connect()
            await publishes(sensor, TEMPERATURE)
            await announced_with(said, "temperature")
            said.last.clear()
            await client.publish("homeassistant/status", b"offline")
            await client.publish("homeassistant/status", b"online", qos=1)
            await announced_with(said, "temperature")
            await said.until(lambda: GATEWAY in said.last)
            topics = {topic for topic in said.last if topic.startswith("tidegate")}
            assert not prefix or not topics


@story
async def test_a_sensor_may_hear_of_the_birth_as_well(broker: Mosquitto, tmp_path: Path) -> None:
    with serving(tmp_path, broker, CONFIG) as gateway:
        async with application(broker, TANK) as client, node(gateway.port, "tank") as sensor:
            said = Listener(client)
            await sensor.connect()
            await sensor.subscribe(b"homeassistant/#")
            await said.until(lambda: TANK in said.last)
            said.last.clear()
            await client.publish("homeassistant/status", b"online", qos=1)
            await said.until(lambda: TANK in said.last)
            payload = b""
            while payload != b"online":
                _, _, payload = await sensor.message()


@story
async def test_forgetting_a_device_removes_it_from_home_assistant(
    broker: Mosquitto, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("tide")
    config = f'{CONFIG}[admin]\nlisten = "127.0.0.1:0"\npassword_file = "password"\n'
    with serving(tmp_path, broker, config) as gateway:
        async with heard_once(broker, gateway) as (said, _):
            await asyncio.to_thread(forget, gateway, "tank")
            for topic in (CLIENT, VALUES, TANK, CLAIM):
                await said.cleared(topic)
            cleared = [topic for topic, payload in said.messages if not payload]
            assert cleared == [TANK, VALUES, CLAIM, CLIENT]


def forget(gateway: GatewayProcess, client_id: str) -> None:
    """As the page does it."""
    port = gateway.wait_for_log(r"status page on http://127\.0\.0\.1:(\d+)").group(1)
    opener = build_opener(HTTPCookieProcessor())

    def asked(path: str, body: dict[str, str], token: str) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "X-Tidegate-Token": token}
        url, octets = f"http://127.0.0.1:{port}/api/{path}", json.dumps(body).encode()
        with opener.open(Request(url, octets, headers), timeout=10) as answer:
            found: dict[str, str] = json.load(answer)
            return found

    token = asked("session", {"password": "tide"}, "")["token"]
    assert asked("actions/forget", {"client": client_id}, token)["done"].startswith("forgotten")


@story
async def test_after_a_restart_with_a_broker_that_lost_everything_values_are_still_known(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, broker, CONFIG) as gateway:
        async with heard_once(broker, gateway) as (_, sensor):
            await sensor.ask(DISCONNECT, u16(600), DISCONNECT)
            await asyncio.to_thread(gateway.stop)
        broker.kill()
        broker.start()
        gateway.start()
        async with application(broker, "homeassistant/#") as client:
            await announced_with(Listener(client), "temperature")


@story
async def test_switched_off_again_everything_is_taken_back(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, broker, CONFIG) as gateway:
        async with heard_once(broker, gateway) as (said, _):
            await asyncio.to_thread(gateway.stop)
            text = gateway.config_path.read_text()
            gateway.config_path.write_text(text.replace("enable = true", "enable = false"))
            gateway.start()
            for topic in (TANK, GATEWAY, VALUES):
                await said.cleared(topic)
            assert said.last[CLIENT], "it is still there, and presence is still said"


# Other gateways, and previous runs


def other_gateway(folder: Path, broker: Mosquitto) -> GatewayProcess:
    folder.mkdir()
    gateway = GatewayProcess(folder, broker.url, CONFIG)
    text = gateway.config_path.read_text()
    gateway.config_path.write_text(text.replace('name = "under-test"', 'name = "other"'))
    return gateway


def gateway_of(said: Listener, topic: str) -> str:
    """Where the values of an announcement are."""
    payload = said.last.get(topic)
    found: str = json.loads(payload)["availability"][0]["topic"] if payload else ""
    return found


@story
async def test_a_sensor_that_moves_to_another_gateway_keeps_its_device(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with (
        serving(tmp_path, broker, CONFIG) as gateway,
        other_gateway(tmp_path / "other", broker) as other,
    ):
        other.wait_until_connected()
        async with heard_once(broker, gateway) as (said, sensor):
            before = said.json(TANK)["components"]
            async with node(other.port, "tank") as moved:
                await moved.connect(clean=False)
                await publishes(moved, TEMPERATURE | {2: 19.5})
                await said.document("tidegate/other/clients/tank", state="awake")
                await sensor.leave()
                await said.until(lambda: gateway_of(said, TANK) == "tidegate/other/state")
                await said.document(
                    "tidegate/other/values/tank", **{"tank/senml": {"temperature": 19.5}}
                )
                for topic in (CLIENT, VALUES, CLAIM):
                    await said.cleared(topic)
                after = said.json(TANK)["components"]
                assert {each["unique_id"] for each in after.values()} == {
                    each["unique_id"] for each in before.values()
                }
                assert b"" not in [payload for topic, payload in said.messages if topic == TANK]
                assert "tidegate_other_2ftank" not in " ".join(said.last)


@story
async def test_what_is_left_of_a_lost_state_folder_is_lost_until_it_comes_back(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, broker, CONFIG) as gateway:
        async with heard_once(broker, gateway) as (said, sensor):
            await asyncio.to_thread(gateway.stop)
            rmtree(tmp_path / "state")
            said.messages.clear()
            gateway.start()
            await said.document(CLIENT, state="lost", available=False)
            await sensor.connect(clean=False)
            await publishes(sensor, TEMPERATURE | {2: 18.5})
            await said.document(CLIENT, state="awake", available=True)
            await said.document(VALUES, **{"tank/senml": {"temperature": 18.5}})
            assert b"" not in [payload for topic, payload in said.messages if topic == TANK]
