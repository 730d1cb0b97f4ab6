"""The sockets of the simulated sensors: one UDP socket each, as one device has one address.

The link knows nothing of MQTT-SN but how to decode and encode; it carries frames to the sensor,
performs `Send`, tells everything else to `on_news`, and re-arms one timer after each input.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.cli.sensors.client_effects import Send
from gateway.cli.sensors.sensor import News, SimulatedSensor, Unreadable
from gateway.frames import MalformedFrame, decode, encode


@dataclass(slots=True)
class SensorLink(asyncio.DatagramProtocol):
    sensor: SimulatedSensor
    on_news: Callable[[str, News], object]
    transport: asyncio.DatagramTransport | None = field(default=None, init=False)
    timer: asyncio.TimerHandle | None = field(default=None, init=False)

    # From the owner

    async def open(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        endpoint = loop.create_datagram_endpoint(lambda: self, remote_addr=(host, port))
        self.transport, _ = await endpoint
        self._perform(self.sensor.start(loop.time()))

    def stop(self) -> None:
        self._perform(self.sensor.stop(asyncio.get_running_loop().time()))

    def close(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.transport is not None:
            self.transport.close()

    # From the event loop

    def datagram_received(self, data: bytes, addr: object) -> None:
        try:
            frame = decode(data)
        except MalformedFrame as error:
            self.on_news(self.sensor.name, Unreadable(str(error)))
            return
        self._perform(self.sensor.receive(frame, asyncio.get_running_loop().time()))

    def error_received(self, exc: Exception) -> None:
        """Nobody listens at the port (ICMP). The retry timer of the client is the answer to it."""

    def _wake(self) -> None:
        self._perform(self.sensor.handle_time(asyncio.get_running_loop().time()))

    # Helpers

    def _perform(self, news: list[News]) -> None:
        for item in news:
            if isinstance(item, Send):
                assert self.transport is not None
                self.transport.sendto(encode(item.frame))
            else:
                self.on_news(self.sensor.name, item)
        self._rearm()

    def _rearm(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        at = self.sensor.wake_at()
        self.timer = None if at is None else asyncio.get_running_loop().call_at(at, self._wake)
