"""Commands on their way to sensors, awake and asleep, while the gateway is killed again and again.

No sensor should have to connect again: it is told to by a gateway that forgot it, and only then.
The broker stays, because mosquitto forgets what it queued when it is killed; its connection to the
gateway is cut in the middle of packets.
"""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from hil.faults.cutting_proxy import cutting_proxy
from hil.faults.lossy_proxy import lossy_proxy
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.end_to_end.chaos import (
    PERSISTENCE,
    doing,
    seed_of_this_run,
    sensors_at,
    start_again,
)
from tests.end_to_end.on_air import assert_untroubled
from tests.support.application import application
from tests.support.patient_sensor import PatientSensor

CONFIG = """\
reconnect_delay_s_min = 0.05
[mqtt_sn]
retry_after_s = 0.3
retry_count_max = 20
[limits]
disconnects_per_s_max = 1000
"""
KILL_AFTER_S = (0.5, 2.0)
SLEEP_DURATION_S, NAP_S, PING_EVERY_S = 30, 0.5, 1.0
ARRIVAL_TIMEOUT_S = 200.0


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    commands: int  # to each sensor, half at QoS 1 and half at QoS 2
    pause_s: float  # between two commands to the same sensor
    sensors: int = 20


async def kill_again_and_again(gateway: GatewayProcess, dice: random.Random) -> None:
    while True:
        await asyncio.sleep(dice.uniform(*KILL_AFTER_S))
        gateway.kill()
        assert_untroubled(gateway)
        await start_again(gateway, dice)


async def command(broker: Mosquitto, plan: Plan) -> None:
    """Every sensor has a topic for each QoS, on which its commands are numbered."""
    async with application(broker) as app:
        for number in range(plan.commands // 2):
            for qos in (1, 2):
                for sensor in range(plan.sensors):
                    await app.publish(f"set/{sensor}/{qos}", b"%d/%d" % (qos, number), qos=qos)
            await asyncio.sleep(2 * plan.pause_s)


async def nap(sensor: PatientSensor, over: asyncio.Event) -> None:
    while not over.is_set():
        await sensor.sleep(SLEEP_DURATION_S)
        await asyncio.sleep(NAP_S)
        await sensor.wake()


async def stay_awake(sensor: PatientSensor, over: asyncio.Event) -> None:
    while not over.is_set():
        await asyncio.sleep(PING_EVERY_S)
        await sensor.ping()


def expected(plan: Plan, qos: int) -> list[bytes]:
    return [b"%d/%d" % (qos, number) for number in range(plan.commands // 2)]


def got(sensor: PatientSensor, qos: int) -> list[bytes]:
    return [command.payload for command in sensor.commands if command.qos == qos]


async def run(plan: Plan, gateway: GatewayProcess, broker: Mosquitto) -> list[PatientSensor]:
    port = await asyncio.to_thread(lambda: gateway.port)
    over = asyncio.Event()
    async with (
        lossy_proxy(port, plan.seed) as proxy,
        sensors_at(proxy.port, plan.sensors) as all_of,
    ):
        await asyncio.to_thread(gateway.wait_until_connected)
        for number, sensor in enumerate(all_of):
            for qos in (1, 2):
                await sensor.subscribe(f"set/{number}/{qos}", qos)
        async with asyncio.TaskGroup() as living:
            for number, sensor in enumerate(all_of):
                living.create_task((nap, stay_awake)[number % 2](sensor, over))
            async with doing(kill_again_and_again(gateway, random.Random(plan.seed))):
                await command(broker, plan)
            wanted = {*expected(plan, 1), *expected(plan, 2)}
            for sensor in all_of:
                await sensor.heard(wanted, ARRIVAL_TIMEOUT_S)
            over.set()
    return all_of


def faults(plan: Plan, sensors: list[PatientSensor]) -> list[str]:
    found = []
    for sensor in sensors:
        once, all_of = got(sensor, 1), got(sensor, 2)
        if list(dict.fromkeys(once)) != expected(plan, 1):
            found.append(f"{sensor.client_id} at QoS 1: {once}")
        if all_of != expected(plan, 2):
            found.append(f"{sensor.client_id} at QoS 2: {all_of}")
    return found


async def commanded(plan: Plan, folder: Path) -> list[PatientSensor]:
    with Mosquitto(PERSISTENCE, folder=folder) as broker:
        async with cutting_proxy(broker.port, plan.seed) as proxy:
            proxy.cutting = True
            with GatewayProcess(folder, f"mqtt://127.0.0.1:{proxy.port}", CONFIG) as gateway:
                sensors = await run(plan, gateway, broker)
                gateway.kill()
                assert_untroubled(gateway)
    return sensors


def assert_commanded(plan: Plan, folder: Path) -> None:
    sensors = asyncio.run(commanded(plan, folder))
    sys.stderr.write(f"seed {plan.seed}, repeats at QoS 1: ")
    sys.stderr.write(f"{sum(len(got(each, 1)) - plan.commands // 2 for each in sensors)}\n")
    found = faults(plan, sensors)
    assert not found, f"seed {plan.seed}: {len(found)} sensors: {found[:3]}"
    # Nobody was forgotten.
    connects = [sensor.counts["connects"] for sensor in sensors]
    assert connects == [1] * plan.sensors, f"seed {plan.seed}: {connects}"


def test_commands_arrive_in_order_while_the_gateway_is_killed(tmp_path: Path) -> None:
    assert_commanded(Plan(seed_of_this_run(), commands=16, pause_s=0.25), tmp_path)


@pytest.mark.soak
def test_for_minutes_commands_arrive_in_order_while_the_gateway_is_killed(tmp_path: Path) -> None:
    # As many as such a link, and a gateway that is away a third of the time, just carry: on a slow
    # machine the queues of those that nap grow for minutes, and every nap must end.
    assert_commanded(Plan(seed_of_this_run(), commands=600, pause_s=0.25), tmp_path)
