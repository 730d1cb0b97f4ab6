"""Memory runs out: new sensors are refused before it does, and a kill by the kernel costs nothing.

In a control group of its own, where somebody else takes the memory.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from pathlib import Path

import pytest

from gateway.frames import Connack, Puback, ReturnCode
from hil.faults.cutting_proxy import cutting_proxy
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.witness import witnessing
from tests.end_to_end.chaos import PERSISTENCE, doing, sensors_at
from tests.end_to_end.test_full_disk import until
from tests.end_to_end.verdict import verdict
from tests.support.asking_sensor import AskingSensor
from tests.support.memory_group import memory_group
from tests.support.patient_sensor import PatientSensor

MIB = 1 << 20
LIMIT_BYTES = 160 * MIB
SENSORS = 6


@pytest.mark.guarantee("12")
def test_new_sensors_are_refused_while_memory_is_scarce_and_others_served(tmp_path: Path) -> None:
    with (
        memory_group(f"tidegate-{os.getpid()}-a", LIMIT_BYTES) as group,
        Mosquitto() as broker,
        GatewayProcess(tmp_path, broker.url, prefix=group.prefix()) as gateway,
    ):
        gateway.wait_until_connected()
        with (
            AskingSensor(gateway.port, "known") as known,
            AskingSensor(gateway.port, "new") as new,
        ):
            assert known.connect() == Connack(ReturnCode.ACCEPTED)
            assert isinstance(known.publish(1), Puback)
            with group.eaten(int(LIMIT_BYTES * 0.93) - group.used_bytes):
                gateway.wait_for_log(r"memory is scarce: 9\d % of the 160 MiB of its control group")
                assert new.connect() == Connack(ReturnCode.CONGESTION)
                answer = known.publish(1)
                assert isinstance(answer, Puback)
                assert answer.return_code == ReturnCode.ACCEPTED
                assert known.connect() == Connack(ReturnCode.ACCEPTED)
            gateway.wait_for_log("memory is no longer scarce")
            assert new.connect() == Connack(ReturnCode.ACCEPTED)


async def send_for_ever(number: int, sensor: PatientSensor) -> None:
    for count in itertools.count():
        await sensor.publish(f"memory/{number}", b"%d/%d" % (number, count), qos=1 + number % 2)


@pytest.mark.guarantee("12")
def test_a_process_that_the_kernel_ends_for_want_of_memory_comes_back_with_all(
    tmp_path: Path,
) -> None:
    (tmp_path / "broker").mkdir()

    async def story() -> None:
        with (
            memory_group(f"tidegate-{os.getpid()}-b", LIMIT_BYTES) as group,
            Mosquitto(PERSISTENCE, folder=tmp_path / "broker") as broker,
        ):
            async with (
                cutting_proxy(broker.port, seed=1) as proxy,
                witnessing(broker.port, "memory/#") as witness,
            ):
                url = f"mqtt://127.0.0.1:{proxy.port}"
                prefix = group.prefix(is_first_to_go=True)
                with GatewayProcess(tmp_path, url, prefix=prefix) as gateway:
                    await asyncio.to_thread(gateway.wait_until_connected)
                    async with sensors_at(gateway.port, SENSORS) as sensors:
                        async with doing(*(send_for_ever(*each) for each in enumerate(sensors))):
                            for _ in range(3):
                                await proxy.shut()
                                await grown(sensors)
                                with group.eaten(LIMIT_BYTES):
                                    await until(
                                        lambda: gateway.returncode is not None, "it is ended"
                                    )
                                assert gateway.returncode == -9
                                await asyncio.to_thread(gateway.start)
                                await asyncio.to_thread(lambda: gateway.port)
                                await proxy.open()
                                await grown(sensors)
                        readings = [each for one in sensors for each in one.acknowledged]
                        payloads = {each.payload for each in readings}
                        await witness.until(lambda: payloads <= witness.payloads, 30.0)
        excused = {each.payload for each in readings if each.qos == 1}
        found = verdict(readings, witness.seen, excused)
        assert not found.faults, f"{found.faults} ({found})"

    async def grown(sensors: list[PatientSensor]) -> None:
        before = [len(sensor.acknowledged) for sensor in sensors]
        await until(
            lambda: all(
                len(sensor.acknowledged) > count + 10
                for sensor, count in zip(sensors, before, strict=True)
            ),
            "every sensor is acknowledged",
        )

    asyncio.run(story())
