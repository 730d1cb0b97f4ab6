"""The card turns read-only or dies: what waits on it is sent, sensors are served, nothing that was
acknowledged is lost.

The card is a real ext4, which the kernel makes read-only or dead as it would after an error.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.request import urlopen

import pytest

from gateway.frames import Connack, Suback, Subscribe
from hil.faults.cutting_proxy import CuttingProxy, cutting_proxy
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.witness import Witness, witnessing
from tests.end_to_end.chaos import PERSISTENCE, doing, sensors_at
from tests.end_to_end.test_full_disk import until
from tests.end_to_end.verdict import verdict
from tests.support.asking_sensor import AskingSensor
from tests.support.dying_card import Card, dying_card
from tests.support.patient_sensor import PatientSensor

SENSORS = 6
CONFIG = "reconnect_delay_s_min = 0.05\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nlevel = 'info'\n"


@dataclass
class Scene:
    card: Card
    gateway: GatewayProcess
    proxy: CuttingProxy
    witness: Witness
    sensors: list[PatientSensor]

    async def restart(self) -> None:
        """Killed before."""
        await asyncio.to_thread(self.gateway.start)
        await asyncio.to_thread(lambda: self.gateway.port)

    async def everybody_is_served(self, readings: int = 4, *, qos_1_only: bool = False) -> None:
        sensors = self.sensors[::2] if qos_1_only else self.sensors
        before = [len(sensor.acknowledged) for sensor in sensors]
        await until(
            lambda: all(
                len(sensor.acknowledged) >= count + readings
                for sensor, count in zip(sensors, before, strict=True)
            ),
            "every sensor is acknowledged",
        )

    async def nobody_is_served(self) -> None:
        before = [sensor.counts["congestion"] for sensor in self.sensors]
        await until(
            lambda: all(
                sensor.counts["congestion"] > count + 2
                for sensor, count in zip(self.sensors, before, strict=True)
            ),
            "every sensor is told of congestion",
        )

    async def log_says(self, pattern: str) -> None:
        await asyncio.to_thread(self.gateway.wait_for_log, pattern)

    async def alarms(self) -> dict[str, str]:
        def ask() -> dict[str, str]:
            page = self.gateway.wait_for_log(r"status page on (http://\S+)").group(1)
            with urlopen(f"{page}/api/status", timeout=5) as answer:
                said = json.load(answer)
            return dict(zip(said["alarm_names"], said["alarms"], strict=True))

        return await asyncio.to_thread(ask)

    async def health(self) -> str:
        """With 200: a supervisor that restarts on anything else would do so for nothing."""

        def ask() -> str:
            page = self.gateway.wait_for_log(r"status page on (http://\S+)").group(1)
            with urlopen(f"{page}/healthz", timeout=5) as answer:
                told = json.load(answer)
            assert told["restart_helps"] is False
            return str(told["status"])

        return await asyncio.to_thread(ask)

    async def everything_arrived(self) -> None:
        payloads = {each.payload for sensor in self.sensors for each in sensor.acknowledged}
        await self.witness.until(lambda: payloads <= self.witness.payloads, 30.0)

    def judge(self, *, in_order: bool) -> None:
        readings = [reading for sensor in self.sensors for reading in sensor.acknowledged]
        # Killed between PUBLISH and acknowledgement, and nothing could be written first.
        excused = {reading.payload for reading in readings}
        found = verdict(readings, self.witness.seen, excused)
        sys.stderr.write(f"{found}\n")
        if not in_order:
            found = replace(found, out_of_order=())
        assert not found.faults, f"{found.faults} ({found})"
        assert "Traceback" not in self.gateway.whole_log


async def send_for_ever(number: int, sensor: PatientSensor) -> None:
    for count in itertools.count():
        await sensor.publish(f"card/{number}", b"%d/%d" % (number, count), qos=1 + number % 2)
        await asyncio.sleep(0.02)


@asynccontextmanager
async def scene(folder: Path, *, in_order: bool = True) -> AsyncIterator[Scene]:
    (folder / "broker").mkdir()
    async with AsyncExitStack() as ends:
        card = ends.enter_context(dying_card(folder / "state"))
        broker = ends.enter_context(Mosquitto(PERSISTENCE, folder=folder / "broker"))
        proxy = await ends.enter_async_context(cutting_proxy(broker.port, seed=1))
        witness = await ends.enter_async_context(witnessing(broker.port, "card/#"))
        url = f"mqtt://127.0.0.1:{proxy.port}"
        gateway = ends.enter_context(GatewayProcess(folder, url, CONFIG))
        await asyncio.to_thread(gateway.wait_until_connected)
        sensors = await ends.enter_async_context(sensors_at(gateway.port, SENSORS))
        found = Scene(card, gateway, proxy, witness, sensors)
        try:
            async with doing(*(send_for_ever(*each) for each in enumerate(sensors))):
                await found.everybody_is_served()
                yield found
            await found.everything_arrived()
            found.judge(in_order=in_order)
        finally:
            gateway.kill()


@pytest.mark.guarantee("12")
def test_a_card_that_turns_read_only_is_read_and_sensors_are_served_by_the_broker(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with scene(tmp_path) as s:
            await s.proxy.shut()
            await s.everybody_is_served()
            s.card.turn_read_only()
            await s.nobody_is_served()
            await s.log_says("the journal cannot be written")
            assert await s.health() == "failing"
            assert "journal_failed" in await s.alarms()
            await s.proxy.open()
            await s.everybody_is_served()
            await s.everything_arrived()

    asyncio.run(story())


@pytest.mark.guarantee("12")
@pytest.mark.parametrize("is_broker_there", [False, True])
def test_a_start_on_a_card_that_is_read_only(tmp_path: Path, is_broker_there: bool) -> None:
    async def story() -> None:
        async with scene(tmp_path) as s:
            await s.proxy.shut()
            await s.everybody_is_served()
            if is_broker_there:
                await s.proxy.open()
            s.gateway.kill()
            s.card.remount("ro")
            await s.restart()
            await s.log_says("the gateway starts all the same")
            await s.log_says("state cannot be saved")
            if not is_broker_there:
                await s.nobody_is_served()
                await s.proxy.open()
            await s.everybody_is_served()
            await s.everything_arrived()
            assert {"journal_failed", "state_not_saved"} <= set(await s.alarms())
            # Sensors that were known are so still.
            assert all(sensor.counts["disconnected"] == 0 for sensor in s.sensors)
            # Again, with no more on the card than before: other tags.
            s.gateway.kill()
            await s.restart()
            await s.everybody_is_served()
            # It goes on by itself, and the card has it all.
            s.card.remount("rw")
            await s.log_says("the journal has room and can be written again")
            await s.log_says("state is saved again")
            await s.proxy.shut()
            # A QoS 2 reading without a record, half-way at the broker, waits for it.
            await s.everybody_is_served(qos_1_only=True)
            s.gateway.kill()
            await s.restart()
            await s.proxy.open()
            await s.everybody_is_served()

    asyncio.run(story())


@pytest.mark.guarantee("12")
def test_a_card_that_dies_costs_nothing_while_the_broker_is_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with scene(tmp_path) as s:
            s.card.die()
            await s.everybody_is_served()
            await s.log_says("the journal cannot be written")

    asyncio.run(story())


@pytest.mark.guarantee("12")
def test_a_card_that_died_is_sent_when_it_can_be_read_again(tmp_path: Path) -> None:
    """And a start on the dead one serves sensors by the broker alone: before what it has."""

    async def story() -> None:
        async with scene(tmp_path, in_order=False) as s:
            await s.proxy.shut()
            await s.everybody_is_served()
            s.gateway.kill()
            s.card.die()
            await s.restart()
            await s.nobody_is_served()
            await s.proxy.open()
            await s.everybody_is_served()
            assert {"journal_failed", "state_not_saved"} <= set(await s.alarms())
            s.gateway.kill()
            s.card.replug()
            await s.restart()
            await s.everything_arrived()
            await s.everybody_is_served()

    asyncio.run(story())


def test_a_spoilt_log_of_the_state_is_told_with_the_sensors(tmp_path: Path) -> None:
    with Mosquitto() as broker, GatewayProcess(tmp_path, broker.url, CONFIG) as gateway:
        gateway.wait_until_connected()
        for name in ("first", "second", "third"):
            with AskingSensor(gateway.port, name) as sensor:
                assert isinstance(sensor.connect(clean=False), Connack)
                assert isinstance(sensor.ask_for(Subscribe(1, b"cmd/x", 1)), Suback)
        gateway.kill()
        log = tmp_path / "state" / "state.db-wal"
        octets = bytearray(log.read_bytes())
        octets[32:] = bytes(len(octets) - 32)
        log.write_bytes(octets)
        gateway.start()
        said = gateway.wait_for_log("the write-ahead log of state.db is damaged: .*").group()
        assert "'first', 'second', 'third'" in said
        page = gateway.wait_for_log(r"status page on (http://\S+)").group(1)
        with urlopen(f"{page}/api/status", timeout=5) as answer:
            assert "state_lost" in json.load(answer)["alarm_names"]
