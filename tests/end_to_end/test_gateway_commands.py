"""The gateway's own device is commanded: by a publisher at a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.app.exit_codes import ExitCode
from gateway.storage import audit_log
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.end_to_end.on_air import node, story
from tests.support.application import application
from tests.support.home_assistant import objections
from tests.support.notices import Listener

CONFIG = "[presence]\nstats_s = 1\n[home_assistant]\nenable = true\n"
GATEWAY = "homeassistant/device/tidegate_under-test/config"
STATS = "tidegate/under-test/stats"
COMMAND = "tidegate/under-test/command"
# As it is run, but a restart may follow its start as soon as that.
SOON = (
    "import sys; from gateway.presence import gateway_commands as commands; "
    "commands.RESTART_EVERY_S = 0.0; from gateway.__main__ import main; sys.exit(main())"
)
RESTARTS = "ends to be started again"
CONNECTED = r"connected to broker "


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


def gateway_at(broker: Mosquitto, folder: Path, config: str = CONFIG) -> GatewayProcess:
    return GatewayProcess(folder, broker.url, config, command=(sys.executable, "-c", SOON))


def recorded(state: Path) -> list[tuple[str, str, object]]:
    """Of the audit log: how, what and with which numbers."""
    found = [each for each in audit_log.read(state) if each is not None]
    return [(each["via"], each["what"], each["asked"]) for each in found]


@story
async def test_its_log_level_is_set_and_shown_until_a_reload(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with gateway_at(broker, tmp_path) as gateway:
        async with application(broker, "#") as client:
            said = Listener(client)
            await said.document(STATS, log_level="info")
            await said.until(lambda: GATEWAY in said.last)
            assert objections("homeassistant", GATEWAY, said.last[GATEWAY]) == []
            assert "since" in said.json(STATS)["broker"]
            select = said.json(GATEWAY)["components"]["log_level"]
            await client.publish(select["command_topic"], "debug", qos=select["qos"])
            await said.document(select["state_topic"], log_level="debug")
            assert "the log level is debug from here on" in gateway.log
            await client.publish(select["command_topic"], "loud", qos=1)
            await asyncio.to_thread(gateway.wait_for_log, "expected one of debug, info,")
            os.kill(gateway.pid, signal.SIGHUP)
            await said.document(STATS, log_level="info")
            assert 'log.level = "info", was "debug"' in gateway.log
    changes = recorded(tmp_path / "state")
    assert changes == [
        ("mqtt", "log_level", {"level": "debug"}),
        ("signal", "reload", {"keys": ["log.level"]}),
    ]


@story
async def test_joining_is_opened_and_closed_and_recorded(broker: Mosquitto, tmp_path: Path) -> None:
    config = f'{CONFIG}[admission]\npermit = "listed"\n'
    with gateway_at(broker, tmp_path, config) as gateway:
        async with application(broker, "#") as client:
            said = Listener(client)
            await said.document(STATS, permit_joining="OFF")
            for state in ("ON", "OFF"):
                await client.publish(f"{COMMAND}/permit_joining", state, qos=1)
                await said.document(STATS, permit_joining=state)
            assert "new sensors may join for 254 s, by a command" in gateway.log
    changes = recorded(tmp_path / "state")
    assert changes == [("mqtt", "join", {"seconds": 254}), ("mqtt", "join", {"seconds": 0})]


@story
async def test_a_restart_is_taken_once(broker: Mosquitto, tmp_path: Path) -> None:
    """The process stays, as no service manager would start another."""
    with gateway_at(broker, tmp_path) as gateway:
        await asyncio.to_thread(gateway.wait_until_connected)
        async with application(broker, "#") as client:
            said = Listener(client)
            await said.until(lambda: GATEWAY in said.last)
            button = said.json(GATEWAY)["components"]["restart"]
            pid = gateway.pid
            await client.publish(button["command_topic"], "PRESS", qos=button["qos"])
            await asyncio.to_thread(gateway.wait_for_log, rf"(?s){RESTARTS}.*{CONNECTED}")
            # What the broker would send again comes before what is published now.
            await client.publish(f"{COMMAND}/log_level", "warning", qos=1)
            await said.document(STATS, log_level="warning")
            assert gateway.pid == pid
            assert gateway.log.count(RESTARTS) == 1


@story
async def test_a_retained_one_is_not_followed(broker: Mosquitto, tmp_path: Path) -> None:
    async with application(broker) as client:
        await client.publish(f"{COMMAND}/restart", "PRESS", qos=1, retain=True)
        with gateway_at(broker, tmp_path) as gateway:
            await asyncio.to_thread(gateway.wait_for_log, "'restart PRESS' is not followed: it is")
            assert RESTARTS not in gateway.log


@story
async def test_a_service_manager_starts_it_again(broker: Mosquitto, tmp_path: Path) -> None:
    with gateway_at(broker, tmp_path) as gateway:
        gateway.kill()
        gateway.start(environment={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        await asyncio.to_thread(gateway.wait_until_connected)
        async with application(broker, STATS) as client:
            await Listener(client).document(STATS, log_level="info")
            await client.publish(f"{COMMAND}/restart", "PRESS", qos=1)
            assert await asyncio.to_thread(gateway.wait_for_exit) == ExitCode.RESTART


@story
async def test_no_sensor_can_command_it(broker: Mosquitto, tmp_path: Path) -> None:
    with gateway_at(broker, tmp_path) as gateway:
        async with application(broker, f"{COMMAND}/#") as client, node(gateway.port, "s") as sensor:
            await sensor.connect()
            number = await sensor.register(f"{COMMAND}/restart")
            await sensor.publish(number, b"PRESS", qos=0)
            await asyncio.to_thread(gateway.wait_for_log, "reserved_topic")
            assert RESTARTS not in gateway.log
            await client.publish(f"{COMMAND}/x", "after it", qos=1)
            said = Listener(client)
            await said.count(1)
            assert said.messages == [(f"{COMMAND}/x", b"after it")]


@story
async def test_what_is_switched_off_is_taken_back(broker: Mosquitto, tmp_path: Path) -> None:
    with gateway_at(broker, tmp_path) as gateway:
        async with application(broker, "#") as client:
            said = Listener(client)
            await said.until(lambda: GATEWAY in said.last)
            await asyncio.to_thread(gateway.stop)
            text = gateway.config_path.read_text(encoding="utf-8")
            gateway.config_path.write_text(f"{text}gateway_commands = false\n", encoding="utf-8")
            said.messages.clear()
            gateway.start()
            await said.until(lambda: len(documents(said)) > 1)
            first, second = documents(said)[:2]
            assert first["components"]["restart"] == {"platform": "button"}
            assert first["components"]["log_level"] == {"platform": "select"}
            assert second["components"].keys().isdisjoint({"restart", "log_level"})
            assert "buffer" in second["components"]


def documents(said: Listener) -> list[dict[str, dict[str, object]]]:
    return [json.loads(payload) for topic, payload in said.messages if topic == GATEWAY]
