"""Sixty commands for a node that looks at its socket when all of them have come: each arrives, once
and whole, and the heap is afterwards as it was.

On MicroPython's Unix port, with its own sockets, and on the simulated board, whose sockets join
and cut as the worst port's do.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import aiomqtt
import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_udp_port
from tests.firmware.ports import PORTS, Runner, runner
from tests.firmware.program import program
from tests.firmware.session_bench import broker, gateway, with_application

__all__ = ["broker", "gateway"]

SOURCES = Path(__file__).resolve().parents[2] / "firmware"
COMMANDS = 60
LIMIT_S = 200.0
READY = "ready"

# The topic is not registered before: its REGISTER is the first of the burst. What is kept of each
# command is a bit, so that the heap is the library's alone.
BODY = """
class Heard:
    commands = bits = wrong = 0
    def take(self, topic, payload, is_retained):
        number = int(bytes(payload[:2]))
        if topic != b"cmd/x" or bytes(payload[2:]) != b"." * number or self.bits & 1 << number:
            self.wrong += 1
        self.bits |= 1 << number
        self.commands += 1

def in_use():
    gc.collect()
    return gc.mem_alloc()

got = Heard()
client.on_message = got.take
client.engine.retry_ms = 5_000
client.subscribe(b"cmd/+", {qos})
client.publish(b"ready", b"x", 1)
before = start = in_use()
time.sleep_ms({pause_ms})
start = time.ticks_ms()
while got.commands < 60 and time.ticks_diff(time.ticks_ms(), start) < 20_000:
    client.wait(20)
client.wait(200)
print("came", got.commands, "wrong", got.wrong, "grown", in_use() - before)
"""


@pytest.fixture(params=PORTS)
def run_on(request: pytest.FixtureRequest, tmp_path: Path) -> Runner:
    return runner(request, tmp_path, heap="64k", limit_s=LIMIT_S)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_all_commands_of_a_burst_arrive(
    run_on: Runner, gateway: GatewayProcess, broker: Mosquitto, qos: int
) -> None:
    text = program(gateway.port, BODY.format(qos=qos, pause_ms=1500))

    async def inner(app: aiomqtt.Client) -> list[str]:
        ran = asyncio.create_task(asyncio.to_thread(run_on, text))
        async with asyncio.timeout(LIMIT_S):
            async for message in app.messages:
                if str(message.topic) == READY:
                    break
        for number in range(COMMANDS):
            await app.publish("cmd/x", b"%02d" % number + b"." * number, qos=qos)
        return await ran

    (line,) = with_application(broker, inner)
    found = re.fullmatch(r"came (\d+) wrong (\d+) grown (-?\d+)", line)
    assert found is not None, line
    came, wrong, grown = map(int, found.groups())
    assert (came, wrong) == (COMMANDS, 0)
    assert grown <= 512


JOINED = """
import socket
near, far = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
address = socket.getaddrinfo("127.0.0.1", {port})[0][-1]
near.bind(address)
near.setblocking(False)
far.connect(address)
for number in range(7):
    far.send(b"hello%d" % number)
buffer = bytearray(15)
print(near.readinto(buffer), bytes(buffer))
print(near.recv(100), near.recv(3))
print(near.read(8), near.readinto(buffer), near.readinto(buffer))
"""


def test_streams_of_datagrams_join_and_cut_what_waits(run_on: Runner) -> None:
    """Why they are read by `recv`; the simulated board does as the Unix port."""
    assert run_on(JOINED.format(port=free_udp_port())) == [
        "15 b'hello0hello1hel'",
        "b'hello3' b'hel'",
        "b'hello5he' None None",
    ]
