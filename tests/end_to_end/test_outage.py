"""The broker is away for a while: the sensors notice nothing, and then everything arrives in order.

Times are told and not judged: a shared machine has its own ideas of them, and `make bench` measures
them with a generator that does not share the interpreter with what it measures.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from hil.faults.cutting_proxy import CuttingProxy, cutting_proxy
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.witness import Seen, Witness, witnessing
from tests.end_to_end.chaos import PERSISTENCE, sensors_at
from tests.end_to_end.on_air import assert_untroubled
from tests.end_to_end.verdict import verdict
from tests.support.patient_sensor import PatientSensor, Reading
from tests.support.samples import sample

HEALTHY_S = 1.0
DRAIN_TIMEOUT_S = 200.0
# A sensor that waits for a slow acknowledgement sends less; with so many, none has to wait.
READINGS_PER_SENSOR_PER_S = 10

AtBroker = tuple[Mosquitto, CuttingProxy, Witness]


@dataclass(slots=True)
class Story:
    """What was sent when, on the monotonic clock."""

    sensors: list[PatientSensor]
    seen: list[Seen]
    away_at: float = 0.0
    back_at: float = 0.0

    @property
    def readings(self) -> list[Reading]:
        return [reading for sensor in self.sensors for reading in sensor.acknowledged]

    @property
    def meanwhile(self) -> list[Reading]:
        return [each for each in self.readings if self.away_at < each.sent_at < self.back_at]

    def __str__(self) -> str:
        meanwhile = self.meanwhile
        times = sorted(reading.acknowledged_at - reading.sent_at for reading in meanwhile)
        waited = {reading.payload for reading in meanwhile}
        arrivals = [
            each.at for each in self.seen if each.at > self.back_at and each.payload in waited
        ]
        p50, p99 = (times[math.ceil(len(times) * share) - 1] * 1e3 for share in (0.5, 0.99))
        drain_s = arrivals[-1] - arrivals[0]
        return (
            f"away for {self.back_at - self.away_at:.1f} s, {len(meanwhile):,} acknowledged then, "
            f"PUBACK p50 {p50:.1f} ms, p99 {p99:.1f} ms; drained in {drain_s:.3f} s, "
            f"{len(arrivals) / drain_s:,.0f}/s"
        )


async def send(number: int, sensor: PatientSensor, over: asyncio.Event) -> None:
    count, due_at = 0, time.monotonic() + number / 1000
    while not over.is_set():
        await asyncio.sleep(due_at - time.monotonic())
        payload = b"%d/%d " % (number, count)
        await sensor.publish(f"outage/{number}", payload.ljust(100, b"."), qos=1)
        due_at += 1 / READINGS_PER_SENSOR_PER_S
        count += 1


async def go_away(at_broker: AtBroker, away_s: float) -> None:
    broker, proxy, witness = at_broker
    await asyncio.to_thread(broker.stop)
    await proxy.shut()
    witness.ready.clear()
    await asyncio.sleep(away_s)
    await asyncio.to_thread(broker.start)
    await witness.ready.wait()
    await proxy.open()


async def outage(port: int, rate_per_s: int, away_s: float, at_broker: AtBroker) -> Story:
    witness = at_broker[-1]
    over = asyncio.Event()
    async with sensors_at(port, rate_per_s // READINGS_PER_SENSOR_PER_S) as sensors:
        story = Story(sensors, witness.seen)
        for number, sensor in enumerate(sensors):
            await sensor.register(f"outage/{number}")
        async with asyncio.TaskGroup() as sending:
            for number, sensor in enumerate(sensors):
                sending.create_task(send(number, sensor, over))
            await asyncio.sleep(HEALTHY_S)
            story.away_at = time.monotonic()
            await go_away(at_broker, away_s)
            story.back_at = time.monotonic()
            waited = {reading.payload for reading in story.meanwhile}
            await witness.until(lambda: waited <= witness.payloads, DRAIN_TIMEOUT_S)
            over.set()
        acknowledged = {reading.payload for reading in story.readings}
        await witness.until(lambda: acknowledged <= witness.payloads, DRAIN_TIMEOUT_S)
    return story


async def told(folder: Path, rate_per_s: int, away_s: float) -> Story:
    with Mosquitto(PERSISTENCE, folder=folder) as broker:
        async with (
            cutting_proxy(broker.port, seed=1) as proxy,
            witnessing(broker.port, "outage/#") as witness,
        ):
            with GatewayProcess(folder, f"mqtt://127.0.0.1:{proxy.port}") as gateway:
                await asyncio.to_thread(gateway.wait_until_connected)
                story = await outage(gateway.port, rate_per_s, away_s, (broker, proxy, witness))
                assert_untroubled(gateway)
    return story


def assert_unnoticed(folder: Path, rate_per_s: int, away_s: float) -> None:
    story = asyncio.run(told(folder, rate_per_s, away_s))
    found = verdict(story.readings, story.seen, excused=set())
    sys.stderr.write(f"{rate_per_s}/s, {story}; {found}\n")
    assert not found.faults, f"{found.faults} ({found})"
    # All the time somebody was acknowledged: nobody had to keep its readings.
    assert len(story.meanwhile) > rate_per_s * away_s / 2, str(story)
    told_off = sum(sensor.counts["disconnected"] for sensor in story.sensors)
    connects = sum(sensor.counts["connects"] for sensor in story.sensors)
    congested = sum(sensor.counts["congestion"] for sensor in story.sensors)
    assert (told_off, connects, congested) == (0, len(story.sensors), 0)


@pytest.mark.parametrize("rate_per_s", sample([200, 2_000], 1))
def test_sensors_do_not_notice_that_the_broker_is_away(tmp_path: Path, rate_per_s: int) -> None:
    assert_unnoticed(tmp_path, rate_per_s, away_s=4.0)


@pytest.mark.soak
@pytest.mark.parametrize("rate_per_s", [200, 2_000])
def test_sensors_do_not_notice_that_the_broker_is_away_for_long(
    tmp_path: Path, rate_per_s: int
) -> None:
    assert_unnoticed(tmp_path, rate_per_s, away_s=20.0)
