"""The disk runs full while the broker is away: what is acknowledged is kept, what is new refused.

The disk is a tmpfs of some MiB, on which somebody else writes as well; so it is full long before
the journal has reached its own limit.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from hil.faults.cutting_proxy import CuttingProxy, cutting_proxy
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.small_disk import SmallDisk, small_disk
from hil.rig.witness import Witness, witnessing
from tests.end_to_end.chaos import PERSISTENCE, doing, sensors_at
from tests.end_to_end.on_air import assert_untroubled
from tests.end_to_end.verdict import verdict
from tests.support.patient_sensor import PatientSensor

DISK_BYTES = 8 << 20
LEFT_BYTES = 3 << 20  # by somebody else, at first
SENSORS = 10
PAYLOAD_BYTES = 1_000
STATE_TIMEOUT_S = 200.0
LOOK_EVERY_S = 0.02
CONFIG = "reconnect_delay_s_min = 0.05\n[log]\nlevel = 'info'\n"


async def send_for_ever(number: int, sensor: PatientSensor) -> None:
    """A refused reading is kept and offered again."""
    for count in itertools.count():
        payload = (b"%d/%d " % (number, count)).ljust(PAYLOAD_BYTES, b".")
        await sensor.publish(f"full/{number}", payload, qos=1 + number % 2)


class Scene:
    def __init__(
        self,
        disk: SmallDisk,
        gateway: GatewayProcess,
        broker: Mosquitto,
        proxy: CuttingProxy,
        witness: Witness,
        sensors: list[PatientSensor],
    ) -> None:
        self.disk, self.gateway, self.broker = disk, gateway, broker
        self.proxy, self.witness, self.sensors = proxy, witness, sensors

    async def broker_leaves(self) -> None:
        await asyncio.to_thread(self.broker.stop)
        await self.proxy.shut()

    async def broker_returns(self) -> None:
        self.witness.ready.clear()
        await asyncio.to_thread(self.broker.start)
        await self.witness.ready.wait()
        await self.proxy.open()

    async def everybody_is_refused(self) -> None:
        """Again and again: not because of a moment in which a segment was made."""
        before = [sensor.counts["congestion"] for sensor in self.sensors]
        await until(
            lambda: all(
                sensor.counts["congestion"] > count + 5
                for sensor, count in zip(self.sensors, before, strict=True)
            ),
            "every sensor is told of congestion",
        )

    async def everybody_is_served(self) -> None:
        before = [len(sensor.acknowledged) for sensor in self.sensors]
        await until(
            lambda: all(
                len(sensor.acknowledged) > count + 5
                for sensor, count in zip(self.sensors, before, strict=True)
            ),
            "every sensor is acknowledged",
        )

    async def everything_arrived(self) -> None:
        payloads = {each.payload for sensor in self.sensors for each in sensor.acknowledged}
        await self.witness.until(lambda: payloads <= self.witness.payloads, STATE_TIMEOUT_S)


async def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + STATE_TIMEOUT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"it was to become so within {STATE_TIMEOUT_S:.0f} s: {what}")
        await asyncio.sleep(LOOK_EVERY_S)


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    (folder / "state").mkdir()
    (folder / "broker").mkdir()
    with (
        small_disk(folder / "state", DISK_BYTES) as disk,
        Mosquitto(PERSISTENCE, folder=folder / "broker") as broker,
    ):
        async with (
            cutting_proxy(broker.port, seed=1) as proxy,
            witnessing(broker.port, "full/#") as witness,
        ):
            url = f"mqtt://127.0.0.1:{proxy.port}"
            with GatewayProcess(folder, url, CONFIG, prefix=disk.prefix) as gateway:
                await asyncio.to_thread(gateway.wait_until_connected)
                async with sensors_at(gateway.port, SENSORS) as sensors:
                    yield Scene(disk, gateway, broker, proxy, witness, sensors)


def judge(scene: Scene) -> None:
    readings = [reading for sensor in scene.sensors for reading in sensor.acknowledged]
    found = verdict(readings, scene.witness.seen, excused=set())
    sys.stderr.write(f"{found}; {len(full_lines(scene.gateway))} times full in the log\n")
    assert not found.faults, f"{found.faults} ({found})"
    assert found.acknowledged * PAYLOAD_BYTES > LEFT_BYTES / 4
    assert [sensor.counts["disconnected"] for sensor in scene.sensors] == [0] * SENSORS
    assert_untroubled(scene.gateway)


def full_lines(gateway: GatewayProcess) -> list[str]:
    return [line for line in gateway.log.splitlines() if re.search(r"journal is full", line)]


def test_a_full_disk_refuses_what_is_new_and_keeps_and_drains_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with scene(tmp_path) as s:
            async with doing(*(send_for_ever(*each) for each in enumerate(s.sensors))):
                await s.everybody_is_served()
                s.disk.fill(leave_bytes=LEFT_BYTES)
                await s.broker_leaves()
                await s.everybody_is_refused()
                # The last free page as well.
                s.disk.fill()
                await s.everybody_is_refused()
                assert len(full_lines(s.gateway)) == 1, s.gateway.log
                await s.broker_returns()
                # Drained, and served again, with the disk as full as it was.
                await s.everybody_is_served()
            await s.everything_arrived()
            judge(s)

    asyncio.run(story())


def test_room_that_somebody_gives_back_is_used_without_help(tmp_path: Path) -> None:
    async def story() -> None:
        async with scene(tmp_path) as s:
            async with doing(*(send_for_ever(*each) for each in enumerate(s.sensors))):
                await s.everybody_is_served()
                await s.broker_leaves()
                s.disk.fill()
                await s.everybody_is_refused()
                s.disk.free()
                await s.everybody_is_served()
                await s.broker_returns()
                await s.everybody_is_served()
            await s.everything_arrived()
            judge(s)

    asyncio.run(story())


def test_a_gateway_killed_on_a_full_disk_begins_again_and_drains(tmp_path: Path) -> None:
    async def story() -> None:
        async with scene(tmp_path) as s:
            async with doing(*(send_for_ever(*each) for each in enumerate(s.sensors))):
                await s.everybody_is_served()
                await s.broker_leaves()
                s.disk.fill()
                await s.everybody_is_refused()
                s.gateway.kill()
                s.disk.fill()
                s.gateway.start()
                await s.everybody_is_refused()
                await s.broker_returns()
                await s.everybody_is_served()
            await s.everything_arrived()
            judge(s)

    asyncio.run(story())
