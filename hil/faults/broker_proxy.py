"""A proxy between the gateway and the broker: open, shut, slow, cut in packets, or full.

`shut` refuses connections, `cut` ends them, `cutting` does so in the middle of packets (all of
`CuttingProxy`), `freeze` holds all bytes, and a full broker takes a connection and answers with
CONNACK "quota exceeded" (MQTT 5, 3.2.2.2), which a real one does when it has no room for clients.
"""

from __future__ import annotations

import asyncio
import contextlib

from hil.faults.cutting_proxy import READ_BYTES, CuttingProxy

# CONNACK, no session, quota exceeded, no properties.
QUOTA_EXCEEDED = bytes.fromhex("20 03 00 97 00")
OCTETS = (50, 800)  # of some readings: boards have little to say
REFUSED, HELD_BACK = "refused", "held back"


class BrokerProxy(CuttingProxy):
    def __init__(self, target_port: int, seed: int) -> None:
        super().__init__(target_port, seed)
        self.octets = OCTETS
        self.is_full = False
        self._flows = asyncio.Event()
        self._flows.set()

    def freeze(self) -> None:
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.is_full:
            await super().serve(reader, writer)
            return
        self.fault_counts[REFUSED] += 1
        with contextlib.suppress(ConnectionError):
            await reader.read(READ_BYTES)
            writer.write(QUOTA_EXCEEDED)
            await writer.drain()
        writer.close()

    async def flows(self) -> None:
        if not self._flows.is_set():
            self.fault_counts[HELD_BACK] += 1
        await self._flows.wait()
