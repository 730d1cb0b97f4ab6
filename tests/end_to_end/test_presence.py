"""Presence and statistics at a real broker: said, said again, and cleared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from hil.faults.cutting_proxy import CUT, cutting_proxy
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.cli.tidegate import tidegate
from tests.end_to_end.on_air import DISCONNECT, SHORT_RETRIES, fresh, node, serving, story
from tests.support.application import application
from tests.support.notices import Listener

BASE = "tidegate/under-test"
CONFIG = SHORT_RETRIES + "[presence]\nstats_s = 1\n"


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


@pytest.fixture
def gateway(broker: Mosquitto, tmp_path: Path) -> Iterator[GatewayProcess]:
    with serving(tmp_path, broker, CONFIG) as running:
        yield running


@story
async def test_a_device_is_awake_then_asleep_until_it_said_and_overdue_and_lost(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    name = fresh("tank")
    topic = f"{BASE}/clients/{name}"
    async with application(broker, f"{BASE}/#") as client, node(gateway.port, name) as sensor:
        said = Listener(client)
        await sensor.connect(clean=False)
        await sensor.register("tank/level")
        awake = await said.document(topic, state="awake")
        assert awake["client"] == name
        assert awake["link"] == "udp0"
        assert awake["until"] is None
        assert awake["last_seen"].endswith("Z")
        await sensor.ask(DISCONNECT, u16(2), DISCONNECT)
        asleep = await said.document(topic, state="asleep")
        assert awake["last_seen"] <= asleep["last_seen"] < asleep["until"] < asleep["lost_at"]
        overdue = await said.document(topic, state="overdue")
        assert overdue["until"] == asleep["until"]
        await said.document(topic, state="lost")


@story
async def test_statistics_count_devices_and_readings(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async with application(broker, f"{BASE}/stats") as client, node(gateway.port) as sensor:
        said = Listener(client)
        await sensor.connect()
        number = await sensor.register("tank/level")
        await sensor.publish(number, b"7", qos=1)
        await said.until(lambda: b'"taken":1' in said.last.get(f"{BASE}/stats", b""))
        await said.until(lambda: b'"awake":1' in said.last[f"{BASE}/stats"])
        stats = said.json(f"{BASE}/stats")
        assert stats["buffer"]["readings"] == 0
        assert stats["uptime_s"] < 60
        assert set(stats["clients"]) == {"awake", "asleep", "overdue", "lost", "disconnected"}


@story
async def test_after_a_restart_of_a_broker_that_lost_everything_all_is_said_again(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    names = sorted(fresh("tank") for _ in range(3))
    for name in names:
        async with node(gateway.port, name) as sensor:
            await sensor.connect(clean=False)
            await sensor.ask(DISCONNECT, u16(600), DISCONNECT)
    async with application(broker, f"{BASE}/#") as client:
        before = Listener(client)
        for name in names:
            await before.document(f"{BASE}/clients/{name}", state="asleep")
    broker.kill()
    broker.start()
    async with application(broker, f"{BASE}/#") as client:
        after = Listener(client)
        for name in names:
            again = await after.document(f"{BASE}/clients/{name}", state="asleep")
            assert again["until"] == before.json(f"{BASE}/clients/{name}")["until"]
        await after.until(lambda: after.last.get(f"{BASE}/state") == b"online")
        await after.until(lambda: f"{BASE}/stats" in after.last)


@story
async def test_a_connection_that_is_cut_for_a_moment_is_not_reported(
    broker: Mosquitto, tmp_path: Path
) -> None:
    """Three times; then `online` is published again when the delay of the will is over."""
    config = "will_delay_s = 2\nreconnect_delay_s_min = 0.05\n" + CONFIG
    async with cutting_proxy(broker.port, seed=3) as proxy:
        gateway = GatewayProcess(tmp_path, f"mqtt://127.0.0.1:{proxy.port}", config)
        async with application(broker, f"{BASE}/state") as client:
            said = Listener(client)
            try:
                gateway.start()
                for connection in range(4):
                    if connection:
                        await proxy.cut()
                    await said.count(connection + 1)
                await said.count(4 + 2)
            finally:
                gateway.kill()
            assert proxy.fault_counts[CUT] >= 3
            assert {payload for _, payload in said.messages} == {b"online"}
            await said.until(lambda: said.last[f"{BASE}/state"] == b"offline")


@story
async def test_a_gateway_that_is_killed_is_offline_by_its_will_after_its_delay(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, broker, "will_delay_s = 2\n" + CONFIG) as gateway:
        async with application(broker, f"{BASE}/state") as client:
            said = Listener(client)
            await said.until(lambda: said.last.get(f"{BASE}/state") == b"online")
            gateway.kill()
            killed_at = monotonic()
            await said.until(lambda: said.last.get(f"{BASE}/state") == b"offline")
            assert monotonic() - killed_at > 1.0  # mosquitto counts whole seconds


@story
async def test_a_gateway_that_is_stopped_is_offline_at_once(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async with application(broker, f"{BASE}/state") as client:
        said = Listener(client)
        await said.until(lambda: said.last.get(f"{BASE}/state") == b"online")
        began = monotonic()
        assert await asyncio.to_thread(gateway.stop) == 0
        await said.until(lambda: said.last.get(f"{BASE}/state") == b"offline")
        assert monotonic() - began < 8.0  # of the 10 that are the delay of its will


@story
async def test_an_id_with_signs_of_topics_is_one_level(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async with application(broker, f"{BASE}/clients/+") as client:
        said = Listener(client)
        async with node(gateway.port, "a/b+c#d%") as sensor:
            await sensor.connect()
            await sensor.register("x")
            found = await said.document(f"{BASE}/clients/a%2Fb%2Bc%23d%25", state="awake")
            assert found["client"] == "a/b+c#d%"


@story
async def test_what_a_device_left_behind_under_another_name_is_cleared(
    broker: Mosquitto, tmp_path: Path
) -> None:
    """The gateway was given another name while it was down."""
    with serving(tmp_path, broker, CONFIG) as gateway:
        async with application(broker, f"{BASE}/#") as client, node(gateway.port, "tank") as sensor:
            said = Listener(client)
            await sensor.connect(clean=False)
            await sensor.ask(DISCONNECT, u16(600), DISCONNECT)
            await said.document(f"{BASE}/clients/tank", state="asleep")
            gateway.stop()
            text = gateway.config_path.read_text().replace("under-test", "another")
            gateway.config_path.write_text(text)
            gateway.start()
            await said.cleared(f"{BASE}/clients/tank")


@story
async def test_a_device_that_is_newer_than_a_backup_is_cleared_when_that_is_restored(
    broker: Mosquitto, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    with serving(tmp_path, broker, CONFIG) as gateway:
        verb = ("--config", gateway.config_path)

        async def asleep(name: str) -> None:
            async with node(gateway.port, name) as sensor:
                await sensor.connect(clean=False)
                await sensor.ask(DISCONNECT, u16(600), DISCONNECT)
                await said.document(f"{BASE}/clients/{name}", state="asleep")

        async with application(broker, f"{BASE}/#") as client:
            said = Listener(client)
            await asleep("tank")
            done = await asyncio.to_thread(tidegate, "backup", backup, *verb, folder=tmp_path)
            assert done.returncode == 0, done.stderr
            await asleep("well")
            gateway.stop()
            restore = ("restore", "--force", backup, *verb)
            done = await asyncio.to_thread(tidegate, *restore, folder=tmp_path)
            assert done.returncode == 0, done.stderr
            said.last.clear()
            gateway.start()
            await said.cleared(f"{BASE}/clients/well")
            await said.document(f"{BASE}/clients/tank", state="asleep")


@story
async def test_switched_off_nothing_is_said_but_the_state(
    broker: Mosquitto, tmp_path: Path
) -> None:
    config = "[presence]\nclients = false\nstats_s = 0\n"
    with serving(tmp_path, broker, config) as gateway:
        async with application(broker, "#") as client, node(gateway.port) as sensor:
            said = Listener(client)
            await sensor.connect()
            number = await sensor.register("tank/level")
            await sensor.publish(number, b"7", qos=1)
            await said.until(lambda: "tank/level" in said.last)
            gateway.stop()
            await said.until(lambda: said.last.get(f"{BASE}/state") == b"offline")
            assert set(said.last) == {f"{BASE}/state", "tank/level"}
