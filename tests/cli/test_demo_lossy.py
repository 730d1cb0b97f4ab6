"""Simulated sensors and the real gateway over a link that loses and copies datagrams.

What a sensor repeats carries DUP and is forwarded once, at QoS 1 too. A copy that the link makes
carries none: at QoS 1 it may be a new reading, and only QoS 2 promises to tell them apart.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from gateway.cli.demo.broker_process import start_broker
from gateway.cli.demo.gateway_process import Ports, start_gateway
from gateway.cli.demo.play import free_port
from gateway.cli.demo.seen import Clock, Seen, SensorSeen
from gateway.cli.demo.watcher import Watcher
from gateway.cli.sensors.pace import Pace
from gateway.cli.sensors.sensor import SimulatedSensor
from gateway.cli.sensors.sensor_link import SensorLink

PATIENCE_S = 200.0
PACE = Pace(retry_after_s=0.1, retries_max=5)
LOSS = 0.2
READINGS_MIN = 15


@dataclass(slots=True)
class GatewaySide(asyncio.DatagramProtocol):
    """The relay's socket for one sensor, so that the gateway sees one address for each."""

    relay: LossyRelay
    address: tuple[str, int]
    transport: asyncio.DatagramTransport | None = None

    def datagram_received(self, data: bytes, addr: object) -> None:
        for _ in range(self.relay.copies()):
            assert self.relay.transport is not None
            self.relay.transport.sendto(data, self.address)


@dataclass(slots=True)
class LossyRelay(asyncio.DatagramProtocol):
    """Stands between the sensors and the gateway; one seed decides every loss and copy."""

    gateway_port: int
    dice: Random
    copied: float  # share of the datagrams that arrive twice
    transport: asyncio.DatagramTransport | None = None
    sides: dict[tuple[str, int], GatewaySide] = field(default_factory=dict)
    lost: int = 0

    async def open(self) -> int:
        endpoint = asyncio.get_running_loop().create_datagram_endpoint(
            lambda: self, local_addr=("127.0.0.1", 0)
        )
        self.transport, _ = await endpoint
        port: int = self.transport.get_extra_info("sockname")[1]
        return port

    async def know(self, address: tuple[str, int]) -> None:
        side = self.sides[address] = GatewaySide(self, address)
        endpoint = asyncio.get_running_loop().create_datagram_endpoint(
            lambda: side, remote_addr=("127.0.0.1", self.gateway_port)
        )
        side.transport, _ = await endpoint

    def copies(self) -> int:
        if self.dice.random() < LOSS:
            self.lost += 1
            return 0
        return 2 if self.dice.random() < self.copied else 1

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        side = self.sides.get(addr)
        if side is None or side.transport is None:
            return  # not known yet: one more datagram that is lost
        for _ in range(self.copies()):
            side.transport.sendto(data)

    def close(self) -> None:
        for transport in (self.transport, *(side.transport for side in self.sides.values())):
            if transport is not None:
                transport.close()


async def outcome_over_a_lossy_link(folder: Path, copied: float) -> tuple[Seen, LossyRelay]:
    clock, dice = Clock.started(), Random(1)
    seen = Seen({f"sensor-{qos}": SensorSeen(f"sensor-{qos}", qos) for qos in (1, 2)})
    ports = Ports(free_port("tcp"), free_port("udp"), free_port("tcp"))
    progress = asyncio.Event()
    async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as stack:
        stack.push_async_callback((await start_broker(folder, ports.broker)).end)
        stack.push_async_callback((await start_gateway(folder, ports)).end)
        relay = LossyRelay(ports.udp, dice, copied)
        relay_port = await relay.open()
        stack.callback(relay.close)
        watcher = Watcher(ports.broker, seen, clock, dice, lambda _: progress.set())
        watching = asyncio.create_task(watcher.run())
        stack.callback(watching.cancel)
        await watcher.subscribed.wait()
        for name, sensor in seen.sensors.items():
            device = SimulatedSensor(
                name, sensor.qos, 0.1, clock.unix_offset_s, Random(dice.random()), PACE
            )
            link = SensorLink(device, seen.sensor_event)
            await link.open("127.0.0.1", relay_port)
            stack.callback(link.close)
            assert link.transport is not None
            await relay.know(link.transport.get_extra_info("sockname"))
        while not complete(seen):
            progress.clear()
            await progress.wait()
    return seen, relay


def complete(seen: Seen) -> bool:
    enough = all(sensor.acknowledged >= READINGS_MIN for sensor in seen.sensors.values())
    return enough and seen.all_arrived()


@pytest.mark.parametrize(("copied", "once"), [(0.0, (1, 2)), (0.2, (2,))])
def test_over_a_lossy_link_acknowledged_readings_arrive_and_arrive_once(
    copied: float, once: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.cli.demo.watcher.INTERVALS_S", (0.1, 0.15, 0.2))
    seen, relay = asyncio.run(outcome_over_a_lossy_link(tmp_path, copied))
    assert relay.lost > 3
    assert sum(sensor.retransmitted for sensor in seen.sensors.values()) > 3
    for sensor in seen.sensors.values():
        assert sensor.acknowledged_missing() == 0
        assert sensor.repeats == 0 or sensor.qos not in once, f"QoS {sensor.qos} came twice"
