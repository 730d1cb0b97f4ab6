"""The gateway of docs/embedding.md, between a sensor and a real broker."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_udp_port
from hil.rig.scripted_client import ScriptedClient, sensor
from tests.examples import EXAMPLES, REPOSITORY
from tests.support.application import application, heard

PROGRAM = EXAMPLES / "embedding" / "small_gateway.py"
TRIES, TRY_S = 20, 1.0


@contextmanager
def gateway(broker_port: int) -> Iterator[int]:
    """Its port for sensors."""
    port = free_udp_port()
    command = [sys.executable, str(PROGRAM), f"127.0.0.1:{port}", f"127.0.0.1:{broker_port}"]
    with subprocess.Popen(command, cwd=REPOSITORY, env={"PYTHONPATH": str(REPOSITORY)}) as process:
        try:
            yield port
        finally:
            process.terminate()
    assert process.returncode == -signal.SIGTERM


async def connected(one: ScriptedClient) -> None:
    """Tried again while the gateway starts."""
    for _ in range(TRIES):
        try:
            async with asyncio.timeout(TRY_S):
                await one.connect()
                return
        except (TimeoutError, OSError):
            pass
    pytest.fail("the gateway does not answer CONNECT")


def test_readings_go_up_and_commands_go_down() -> None:
    async def story(broker: Mosquitto, port: int) -> None:
        async with application(broker, "greenhouse/#") as there, sensor(port, "tank") as tank:
            await connected(tank)
            for qos in (0, 1, 2):
                topic = await tank.register(f"greenhouse/{qos}")
                await tank.publish(topic, b"21.5", qos=qos)
                message = await heard(there)
                assert (str(message.topic), message.payload) == (f"greenhouse/{qos}", b"21.5")
            await tank.subscribe(b"commands/+", qos=1)
            await there.publish("commands/tank", b"open", qos=1)
            flags, _, payload = await tank.message()
            assert (flags >> 5 & 3, payload) == (1, b"open")

    with Mosquitto() as broker, gateway(broker.port) as port:
        asyncio.run(story(broker, port))


def test_a_reading_without_a_broker_is_acknowledged_when_there_is_one() -> None:
    async def story(broker: Mosquitto, port: int) -> None:
        async with sensor(port, "tank") as tank:
            await connected(tank)
            topic = await tank.register("greenhouse/1")
            broker.stop()
            publishing = asyncio.create_task(tank.publish(topic, b"21.5", qos=1))
            done, _ = await asyncio.wait([publishing], timeout=TRY_S)
            assert not done
            broker.start()
            await publishing

    with Mosquitto() as broker, gateway(broker.port) as port:
        asyncio.run(story(broker, port))


@pytest.mark.parametrize("arguments", [[], ["127.0.0.1:1"], ["a", "b", "c"]])
def test_without_two_addresses_it_says_what_it_takes(arguments: list[str]) -> None:
    run = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr.splitlines()[0][:24]) == (1, "usage: small_gateway.py ")
