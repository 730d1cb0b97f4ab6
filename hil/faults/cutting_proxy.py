"""A TCP proxy that cuts connections in the middle of packets, each after some random bytes.

Shut it refuses connections, and it opens again on the same port.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hil.rig.ports import HeldPort

READ_BYTES = 1 << 16
CUT, CUT_IN_A_PACKET = "cut", "cut in a packet"

_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class CuttingProxy:
    def __init__(self, target_port: int, seed: int) -> None:
        self.fault_counts: Counter[str] = Counter()  # of connections
        self.cutting = False
        # A connection lasts for a number of bytes between these, counted while `cutting`.
        self.chunk_bytes = (200, 20_000)
        self._target_port = target_port
        self._dice = random.Random(seed)
        self._server: asyncio.Server
        self._held = HeldPort()
        self._was_cut = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        return self._held.number

    async def open(self) -> None:
        self._server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)

    async def shut(self) -> None:
        self._server.close()
        await self.cut()

    async def close(self) -> None:
        """For good."""
        await self.shut()
        self._held.close()

    async def cut(self) -> None:
        """All connections, at once; new ones are taken."""
        self.fault_counts[CUT] += len(self._connections)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def has_cut(self, times: int, *, within_s: float) -> bool:
        """Whether it has cut as often, now or in a moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self.fault_counts[CUT_IN_A_PACKET] < times:
                    self._was_cut.clear()
                    await self._was_cut.wait()
        return self.fault_counts[CUT_IN_A_PACKET] >= times

    async def flows(self) -> None:
        """Returns when bytes may pass."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        # asyncio's streams would log that `close` cancels.
        with contextlib.suppress(asyncio.CancelledError):
            try:
                far = await asyncio.open_connection("127.0.0.1", self._target_port)
            except (OSError, asyncio.CancelledError):  # one that is cut so early would hang
                writer.transport.abort()
                return
            await self._both_ways((reader, writer), far, [self._dice.randint(*self.chunk_bytes)])

    async def _both_ways(self, near: _Ends, far: _Ends, left: list[int]) -> None:
        (reader, writer), (far_reader, far_writer) = near, far
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, far_writer, left))
                group.create_task(self._pass_on(far_reader, writer, left))
        except* (ConnectionError, EOFError):
            pass
        finally:
            for each in (writer, far_writer):
                # Half of them by RST, half by FIN.
                if self._dice.random() < 0.5:
                    each.transport.abort()
                else:
                    each.close()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: list[int]
    ) -> None:
        while True:
            chunk_bytes = await reader.read(READ_BYTES)
            if not chunk_bytes:
                raise EOFError
            await self.flows()
            if not self.cutting:
                pass
            elif len(chunk_bytes) < left[0]:
                left[0] -= len(chunk_bytes)
            else:
                self.fault_counts[CUT_IN_A_PACKET] += 1
                self._was_cut.set()
                writer.write(chunk_bytes[: left[0]])
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
                raise EOFError
            writer.write(chunk_bytes)
            await writer.drain()


@asynccontextmanager
async def cutting_proxy(target_port: int, seed: int) -> AsyncIterator[CuttingProxy]:
    proxy = CuttingProxy(target_port, seed)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()
