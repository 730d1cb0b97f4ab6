"""The sockets of the simulated sensors: one UDP socket each, as one device has one address.

The link knows nothing of MQTT-SN but what is unreadable; it carries datagrams to the sensor,
performs `Send`, passes everything else to `on_event`, and keeps one timer. A timer that expires too
early is set again, which is cheaper than moving it with each datagram. Time is the monotonic clock
itself: that of uvloop steps in milliseconds, longer than an answer over loopback takes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from gateway.cli.sensors.air import Air
from gateway.cli.sensors.client_effects import Send
from gateway.cli.sensors.protected import ProtectedPackets
from gateway.cli.sensors.sensor import SensorEvent, SimulatedSensor, Unreadable
from gateway.frames import MalformedFrame, decode


@dataclass(slots=True)
class SensorLink(asyncio.DatagramProtocol):
    sensor: SimulatedSensor
    on_event: Callable[[str, SensorEvent], object]
    air: Air = field(default_factory=lambda: Air(Random(0)))
    protected: ProtectedPackets | None = None  # None: without a key
    transport: asyncio.DatagramTransport | None = field(default=None, init=False)
    timer: asyncio.TimerHandle | None = field(default=None, init=False)
    # Of the timer: uvloop's has no time itself where that is over already.
    due_at: float = field(default=0.0, init=False)

    # From the owner

    async def open(self, host: str, port: int) -> None:
        """Raises OSError, such as for too many open files."""
        loop = asyncio.get_running_loop()
        endpoint = loop.create_datagram_endpoint(lambda: self, remote_addr=(host, port))
        self.transport, _ = await endpoint
        self._perform(self.sensor.start(time.monotonic()))

    def finish(self) -> None:
        self.sensor.finish()

    def stop(self) -> None:
        self._perform(self.sensor.stop(time.monotonic()))

    def close(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.transport is not None:
            self.transport.close()

    # From the event loop

    def datagram_received(self, data: bytes, addr: object) -> None:
        for _ in range(self.air.arrivals()):
            if self.protected is None:
                self._receive(data)
                continue
            packets, answers = self.protected.opened(data)
            for each in answers:
                self._send(each)
            for each in packets:
                self._receive(each)

    def error_received(self, exc: Exception) -> None:
        """The port is closed (ICMP). The retry timer of the client is the answer to it."""

    def _wake(self) -> None:
        self.timer = None
        self._perform(self.sensor.handle_time(time.monotonic()))

    # Helpers

    def _receive(self, data: bytes) -> None:
        try:
            decode(data)  # the library drops it, and does not say why
        except MalformedFrame as error:
            self.on_event(self.sensor.name, Unreadable(str(error)))
            return
        self._perform(self.sensor.receive(data, time.monotonic()))

    def _perform(self, events: list[SensorEvent]) -> None:
        for item in events:
            if isinstance(item, Send):
                if self.protected is None:
                    self._send(item.datagram)
                    continue
                for each in self.protected.sealed(item.datagram):
                    self._send(each)
            else:
                self.on_event(self.sensor.name, item)
        self._rearm()

    def _send(self, datagram: bytes) -> None:
        assert self.transport is not None
        for _ in range(self.air.arrivals()):
            self.transport.sendto(datagram)

    def _rearm(self) -> None:
        at = self.sensor.wake_at()
        if self.timer is not None:
            if at is not None and self.due_at <= at:
                return
            self.timer.cancel()
        self.timer = None
        if at is not None:
            self.due_at, self.timer = at, asyncio.get_running_loop().call_at(at, self._wake)
