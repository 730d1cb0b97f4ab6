"""Real MicroPython on a serial line, at a port of the real gateway."""

from __future__ import annotations

import asyncio

import aiomqtt

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.firmware.conftest import BoardMaker
from tests.firmware.serial_line import SerialLine
from tests.support.application import application, heard

BEGIN = """
from machine import UART
from mqttsn import Client
from mqttsn.uart import Uart

said = []
def came(topic, payload, is_retained):
    said.append(topic)
    print("heard", topic, bytes(payload))

client = Client(Uart(UART(0, 115200)), b"wired-1")
client.on_message = came
client.engine.retry_ms = 60
client.engine.retries = 20
"""
EVERY_OCTET = """
client.subscribe(b"back", 1)
client.publish(b"forth", bytes(range(128)), 1)
client.publish(b"forth", bytes(range(128, 256)), 2)
client.publish(b"back", bytes(range(1, 32)), 0)
client.wait(500)
"""
READINGS = """
for number in range(100):
    client.publish(b"noisy", b"%03d" % number * 7, 1)
print("done")
"""


SLEEPER = """
import time
client.subscribe(b"cmd/#", 1)
client.sleep(60)
print("asleep")
while not said:
    time.sleep_ms(100)
    client.wake()
client.publish(b"forth", b"from " + bytes(str(client.engine.state), "ascii"), 1)
client.sleep(0)
"""


async def payloads(app: aiomqtt.Client, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        message = await heard(app)
        assert isinstance(message.payload, bytes)
        found.append(message.payload)
    return found


def test_octets_of_every_value_go_both_ways(
    new_board: BoardMaker, serial_gateway: GatewayProcess, broker: Mosquitto, line: SerialLine
) -> None:
    async def inner() -> list[bytes]:
        async with application(broker, "forth") as app:
            board = new_board(uarts=(line.device,))
            outcome = await asyncio.to_thread(board.run, BEGIN + EVERY_OCTET)
            assert outcome.code == 0, board.output
            assert board.output.strip() == f"heard b'back' {bytes(range(1, 32))!r}"
            return await payloads(app, 2)

    assert asyncio.run(inner()) == [bytes(range(128)), bytes(range(128, 256))]


def test_what_came_for_a_sleeper_on_a_line_comes_when_it_wakes(
    new_board: BoardMaker, serial_gateway: GatewayProcess, broker: Mosquitto, line: SerialLine
) -> None:
    async def inner() -> None:
        async with application(broker, "forth") as app:
            with new_board(uarts=(line.device,)).start(BEGIN + SLEEPER) as life:
                await asyncio.to_thread(life.wait_for, "asleep", 20.0)
                await app.publish("cmd/x", "while asleep", qos=1)
                assert await payloads(app, 1) == [b"from 2"]
                assert "heard b'cmd/x' b'while asleep'" in life.output

    asyncio.run(inner())


def test_with_one_octet_in_a_hundred_damaged_every_reading_arrives_and_none_is_corrupt(
    new_board: BoardMaker, serial_gateway: GatewayProcess, broker: Mosquitto, line: SerialLine
) -> None:
    line.errors = 0.01
    wanted = [b"%03d" % number * 7 for number in range(100)]

    async def inner() -> set[bytes]:
        arrived: set[bytes] = set()
        async with application(broker, "#") as app:
            board = new_board(uarts=(line.device,))
            task = asyncio.create_task(asyncio.to_thread(board.run, BEGIN + READINGS))
            while wanted[-1] not in arrived:
                message = await heard(app)
                if not str(message.topic).startswith("tidegate/"):
                    assert str(message.topic) == "noisy"
                    assert isinstance(message.payload, bytes)
                    arrived.add(message.payload)
            outcome = await task
            assert outcome.code == 0, board.output
            assert line.damaged > 30
        return arrived

    assert asyncio.run(inner()) == set(wanted)
