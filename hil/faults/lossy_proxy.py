"""A UDP network between sensors and a gateway that loses, copies, delays, reorders and damages
datagrams, or takes none that are longer than its MTU.

- Each sensor has a port of its own towards the gateway, which so sees one address per sensor, the
  same over restarts of the gateway. `move` gives a sensor a new one, as a router does that forgot,
  and one that no other had: what came from there would count as the other's (MQTT-SN on plain UDP
  has nothing else to know a sensor by).
- One seed decides every fault; what the datagrams are and when they come is the sockets' doing, so
  a seed makes the trouble of a failing run likely again, not certain.
- A socket of a gateway that is not there answers with ICMP, which is a loss like any other.

Limits: IPv4; a datagram that came after its delay to a closed proxy is lost.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hil.faults.tap import NoTap, Tap

LOOPBACK = "127.0.0.1"
LOST_WHILE_DOWN, MOVED = "lost while down", "moved"
# Far fewer than a kernel has to give, so that a new one is soon found; the oldest may come again.
PORTS_KEPT_MAX = 4096
# Datagrams of which it is known when they went to the gateway; the oldest are forgotten first.
SENT_UP_MAX = 200_000

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Impairment:
    """Shares of datagrams, each way. What is delayed comes after what was sent up to that later."""

    loss: float = 0.1
    copies: float = 0.1
    delayed: float = 0.2
    delay_s_max: float = 0.1
    # One bit of each is turned over. Checksums of UDP catch what radios let through, so it happens
    # where there are none: in a bridge, or with a faulty one.
    damaged: float = 0.0
    mtu: int = 0  # longer datagrams are lost; 0: there is no limit

    @property
    def marks(self) -> tuple[str, ...]:
        """Faults that it causes."""
        brings = {
            "lost": self.loss,
            "copied": self.copies,
            "delayed": self.delayed,
            "damaged": self.damaged,
            "too long": self.mtu,
        }
        return tuple(fault for fault, much in brings.items() if much)


CALM = Impairment(loss=0.0, copies=0.0, delayed=0.0)


class _End(asyncio.DatagramProtocol):
    """Errors of a datagram socket are losses, which is DatagramProtocol's own answer."""

    def __init__(self, receive: Callable[[bytes, Address], None]) -> None:
        self._receive = receive

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._receive(data, addr)


class LossyProxy:
    def __init__(
        self,
        gateway_port: int,
        seed: int,
        impairment: Impairment,
        *,
        gateway_host: str = LOOPBACK,
        listen_host: str = LOOPBACK,
        tap: Tap | None = None,
    ) -> None:
        self.impairment = impairment
        self.is_down = False  # loses all
        self.fault_counts: Counter[str] = Counter()
        # What went to the gateway more than once although it was sent once.
        self.copied_up: Counter[bytes] = Counter()
        self._gateway: Address = (gateway_host, gateway_port)
        self._listen_host = listen_host
        self._tap: Tap = tap or NoTap()
        self._dice = random.Random(seed)
        self._near: asyncio.DatagramTransport
        self._far: dict[Address, asyncio.DatagramTransport] = {}
        self._ports_given: deque[int] = deque(maxlen=PORTS_KEPT_MAX)
        self._opening: dict[Address, list[bytes]] = {}
        # Which in the row of all that went to the gateway each datagram was, first and last.
        self._sent_up: dict[bytes, tuple[int, int]] = {}
        self._count_up = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        port: int = self._near.get_extra_info("sockname")[1]
        return port

    def port_of(self, sensor: Address) -> int:
        """The one under which the gateway knows this sensor."""
        port: int = self._far[sensor].get_extra_info("sockname")[1]
        return port

    def arrived_after(self, datagram: bytes, other: bytes) -> bool:
        """Whether it went to the gateway, perhaps not for the first time, after the other had."""
        if datagram not in self._sent_up or other not in self._sent_up:
            return False
        return self._sent_up[datagram][1] > self._sent_up[other][0]

    async def open(self) -> None:
        self._near, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _End(self._from_sensor), local_addr=(self._listen_host, 0)
        )

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for transport in (self._near, *self._far.values()):
            transport.close()

    async def move(self, sensor: Address) -> None:
        """From now on the gateway sees this sensor at another port, and cannot reach the old."""
        former = self._far.get(sensor)
        self._far[sensor] = await self._new_far(sensor)
        if former is not None:
            former.close()
            self.fault_counts[MOVED] += 1

    async def move_all(self) -> None:
        for sensor in list(self._far):
            await self.move(sensor)

    async def _new_far(self, sensor: Address) -> asyncio.DatagramTransport:
        had_before = []  # held until there is another, or the kernel might give them once more
        while True:
            transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: _End(lambda datagram, _: self._from_gateway(sensor, datagram)),
                remote_addr=self._gateway,
            )
            port = transport.get_extra_info("sockname")[1]
            if port not in self._ports_given:
                break
            had_before.append(transport)
        for each in had_before:
            each.close()
        self._ports_given.append(port)
        return transport

    def _from_sensor(self, datagram: bytes, sensor: Address) -> None:
        self._tap.up(datagram)
        self._tap.on_air(len(datagram), 0)
        if sensor in self._far:
            self._send_up(sensor, datagram)
        elif sensor in self._opening:
            self._opening[sensor].append(datagram)
        else:
            self._opening[sensor] = [datagram]
            task = asyncio.get_running_loop().create_task(self._open_port(sensor))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _open_port(self, sensor: Address) -> None:
        self._far[sensor] = await self._new_far(sensor)
        for datagram in self._opening.pop(sensor):
            self._send_up(sensor, datagram)

    def _send_up(self, sensor: Address, datagram: bytes) -> None:
        def deliver(payload: bytes) -> None:
            self._far[sensor].sendto(payload)
            self._count_up += 1
            first, _ = self._sent_up.get(datagram, (self._count_up, 0))
            self._sent_up[datagram] = first, self._count_up
            if len(self._sent_up) > SENT_UP_MAX:
                del self._sent_up[next(iter(self._sent_up))]

        if self._carry(datagram, deliver) > 1:
            self.copied_up[datagram] += 1

    def _from_gateway(self, sensor: Address, datagram: bytes) -> None:
        def deliver(payload: bytes) -> None:
            self._near.sendto(payload, sensor)
            self._tap.on_air(0, len(payload))
            if payload == datagram:
                self._tap.down(datagram)

        self._carry(datagram, deliver)

    def _carry(self, datagram: bytes, deliver: Callable[[bytes], None]) -> int:
        """How often it will arrive."""
        impairment, dice = self.impairment, self._dice
        is_too_long = 0 < impairment.mtu < len(datagram)
        if self.is_down:
            self.fault_counts[LOST_WHILE_DOWN] += 1
            return 0
        if is_too_long or dice.random() < impairment.loss:
            self.fault_counts["too long" if is_too_long else "lost"] += 1
            return 0
        copies = 2 if dice.random() < impairment.copies else 1
        self.fault_counts["copied"] += copies - 1
        for _ in range(copies):
            payload = self._damaged(datagram) if dice.random() < impairment.damaged else datagram
            if dice.random() < impairment.delayed:
                self.fault_counts["delayed"] += 1
                delay_s = dice.uniform(0.0, impairment.delay_s_max)
                loop = asyncio.get_running_loop()
                loop.call_later(delay_s, self._deliver_late, deliver, payload)
            else:
                deliver(payload)
        return copies

    def _damaged(self, datagram: bytes) -> bytes:
        self.fault_counts["damaged"] += 1
        payload = bytearray(datagram)
        payload[self._dice.randrange(len(payload))] ^= 1 << self._dice.randrange(8)
        return bytes(payload)

    def _deliver_late(self, deliver: Callable[[bytes], None], payload: bytes) -> None:
        if not self._near.is_closing():
            deliver(payload)


@asynccontextmanager
async def lossy_proxy(
    gateway_port: int, seed: int, impairment: Impairment | None = None
) -> AsyncIterator[LossyProxy]:
    proxy = LossyProxy(gateway_port, seed, impairment or Impairment())
    await proxy.open()
    try:
        yield proxy
    finally:
        proxy.close()
