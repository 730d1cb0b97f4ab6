"""A board for the node on CPython: real sockets, a flash that loses its power, RTC memory.

Time is the machine's; what a real board has of its own (WLAN, watchdog) is counted.
"""

from __future__ import annotations

import time

from firmware.app.watch import Watch
from firmware.mqttsn.udp import Udp
from tests.firmware.app.simulated_buses import Pins


class SimulatedBoard(Pins):
    def __init__(self, gateway_port: int, local_port: int) -> None:
        super().__init__(1_500_000)
        self.rtc_memory = b""
        self.joined = self.left = self.fed = 0
        self.has_network = True
        self.opened: list[Udp] = []
        self._gateway_port = gateway_port
        self._local_port = local_port

    def power_cut(self) -> None:
        self.rtc_memory = b""
        for each in self.opened:
            each.close()
        self.opened.clear()

    def seconds(self) -> int:
        return int(time.time())

    def feed(self) -> None:
        self.fed += 1

    def memory(self) -> bytes:
        return self.rtc_memory

    def keep(self, kept: bytes) -> None:
        self.rtc_memory = kept

    def join(self, watch: Watch) -> None:
        self.joined += 1
        if not self.has_network:
            raise OSError("no WLAN")

    def leave(self) -> None:
        self.left += 1

    def transport(self) -> Udp:
        udp = Udp(("127.0.0.1", self._gateway_port))
        udp.local_port = self._local_port
        self.opened.append(udp)
        return udp
