"""What Home Assistant costs: how long devices take to appear, CPU and memory of the gateway.

    python -m tests.bench.home_assistant_cost [--devices N] [--values N] [--seconds S]

Devices connect and publish a reading with all their values each `EVERY_S`, at QoS 1, to a gateway
with its default limits; broker and gateway run on this machine, a subscriber is Home Assistant's
part. The same runs once more with `home_assistant` off, for as long: the difference is its cost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import aiomqtt

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.bench.part import say
from tests.end_to_end.on_air import Node, node
from tests.support.application import application

EVERY_S = 10.0
ON = "[home_assistant]\nenable = true\n"
OFF = "[home_assistant]\nenable = false\n"
BIRTH = "homeassistant/status"
AT_ONCE = 20  # devices that connect at the same time
LONGEST_S = 300.0


@dataclass(slots=True)
class Heard:
    """What the subscriber has heard: by device, how many values it is announced with."""

    values: int
    announced: dict[str, int] = field(default_factory=dict)
    complete_at: float = 0.0
    seconds: Counter[int] = field(default_factory=Counter)  # messages of the gateway's own
    births: set[str] = field(default_factory=set)

    def take(self, topic: str, payload: bytes) -> None:
        now = time.monotonic()
        self.seconds[int(now)] += 1
        if not topic.startswith("homeassistant/device/") or not payload:
            return
        components = json.loads(payload)["components"]
        entities = sum(each.get("name", "").startswith("V") for each in components.values())
        if "standing" in components:
            self.births.add(topic)
            before, self.announced[topic] = self.announced.get(topic, 0), entities
            if before < self.values <= entities:
                self.complete_at = now


@dataclass(frozen=True, slots=True)
class Run:
    announced_s: float
    birth_s: float
    busiest_s: int  # messages in the busiest second after the birth message
    cpu_s: float
    later_cpu_s: float
    rss_kib: int


async def publishes(sensor: Node, number: int, values: int, at: int) -> None:
    records = [{"n": f"v{each}", "u": "Cel", "v": at + each / 10} for each in range(values)]
    await sensor.publish(number, json.dumps(records).encode(), qos=1)


async def device(stack: AsyncExitStack, port: int, name: str, gate: asyncio.Semaphore) -> Node:
    async with gate:
        sensor = await stack.enter_async_context(node(port, name))
        await sensor.connect(clean=False, keep_alive_s=120)
        return sensor


async def live(sensor: Node, topic: str, values: int, until: asyncio.Event, share: float) -> None:
    """The first reading at once, the others spread over the time between them."""
    number, at = await sensor.register(topic), 0
    await publishes(sensor, number, values, at)
    wait_s = EVERY_S * share
    while not until.is_set():
        try:
            async with asyncio.timeout(wait_s):
                await until.wait()
        except TimeoutError:
            at, wait_s = at + 1, EVERY_S
            await publishes(sensor, number, values, at)


async def listens(client: aiomqtt.Client, heard: Heard) -> None:
    async for message in client.messages:
        assert isinstance(message.payload, bytes)
        heard.take(str(message.topic), message.payload)


async def run(
    folder: Path, config: str, devices: int, values: int, seconds: float, lasts_s: float | None
) -> Run:
    """`lasts_s`: what the other run took until all was announced; None: it is waited for."""
    heard, over, gate = Heard(values), asyncio.Event(), asyncio.Semaphore(AT_ONCE)
    with Mosquitto() as broker, GatewayProcess(folder, broker.url, config) as gateway:
        gateway.wait_until_connected()
        async with (
            application(broker, "homeassistant/#", "tidegate/#", qos=0) as client,
            asyncio.TaskGroup() as tasks,
            AsyncExitStack() as stack,
        ):
            listening = tasks.create_task(listens(client, heard))
            began, cpu = time.monotonic(), cpu_s_of(gateway.pid)

            async def begin(number: int) -> None:
                sensor = await device(stack, gateway.port, f"device-{number:04d}", gate)
                topic = f"plant/{number:04d}/senml"
                tasks.create_task(live(sensor, topic, values, over, number / devices))

            await asyncio.gather(*(begin(number) for number in range(devices)))
            if lasts_s is None:
                while sum(each >= values for each in heard.announced.values()) < devices:
                    assert time.monotonic() < began + LONGEST_S, f"{len(heard.announced)} announced"
                    await asyncio.sleep(0.1)
                lasts_s = heard.complete_at - began
            await asyncio.sleep(max(0.0, began + lasts_s - time.monotonic()))
            first_cpu = cpu_s_of(gateway.pid) - cpu
            rss_kib = rss_kib_of(gateway.pid)
            cpu = cpu_s_of(gateway.pid)
            await asyncio.sleep(seconds)
            later_cpu = cpu_s_of(gateway.pid) - cpu
            birth_s, busiest = 0.0, 0
            if config == ON:
                heard.births.clear()
                heard.seconds.clear()
                born = time.monotonic()
                await client.publish(BIRTH, "online")
                while len(heard.births) < devices:
                    assert time.monotonic() < born + LONGEST_S
                    await asyncio.sleep(0.1)
                birth_s, busiest = time.monotonic() - born, max(heard.seconds.values())
            over.set()
            listening.cancel()
    return Run(lasts_s, birth_s, busiest, first_cpu, later_cpu, rss_kib)


def cpu_s_of(pid: int) -> float:
    values = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


def rss_kib_of(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def report(given: argparse.Namespace, on: Run, off: Run) -> str:
    cpu_ms = (on.cpu_s - off.cpu_s) / given.devices * 1e3
    readings = given.devices * given.seconds / EVERY_S
    later_us = (on.later_cpu_s - off.later_cpu_s) / readings * 1e6
    memory_kib = (on.rss_kib - off.rss_kib) / given.devices
    return f"""\
{given.devices} devices x {given.values} values, with Home Assistant and without
all announced after   {on.announced_s:.1f} s
after a birth message {on.birth_s:.1f} s, {on.busiest_s} messages in the busiest second
CPU until then        {cpu_ms:.2f} ms a device more ({on.cpu_s:.2f} s, {off.cpu_s:.2f} s)
CPU after that        {later_us:.0f} us a reading more
                      ({on.later_cpu_s:.2f} s, {off.later_cpu_s:.2f} s)
memory                {memory_kib:.1f} KiB a device more ({on.rss_kib} KiB, {off.rss_kib} KiB)"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what Home Assistant costs the gateway.")
    parser.add_argument("--devices", type=int, default=500, metavar="N")
    parser.add_argument("--values", type=int, default=10, metavar="N")
    parser.add_argument("--seconds", type=float, default=30.0, metavar="S", help="after that")
    given = parser.parse_args()
    found: list[Run] = []
    for config in (ON, OFF):
        with tempfile.TemporaryDirectory() as folder:
            lasts_s = found[0].announced_s if found else None
            found.append(
                asyncio.run(
                    run(Path(folder), config, given.devices, given.values, given.seconds, lasts_s)
                )
            )
    say(report(given, *found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
