"""Between the load generator and a serial line: what it says over UDP goes there as a radio bridge
would carry it, one node for each of its clients, at the speed of a line or as fast as it goes.

A pseudo-terminal takes any amount at once, so that it is the relay that lets it wait, both ways.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

from gateway.transports.serial.framing_choice import framing
from hil.rig.line_framings import Kind, LineFraming
from tests.support.pty_line import PtyLine

MESSAGE_BYTES_MAX = 4096
START_TIMEOUT_S = 60.0
FORWARDED, NODE_ID_BYTES = 0xFE, 2
HEAD_BYTES = 3 + NODE_ID_BYTES

Address = tuple[str, int]


class _QuickFraming(LineFraming):
    """The gateway's own, as the plain one of the tests would be what is measured."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self._framing = framing(kind, message_bytes_max=MESSAGE_BYTES_MAX)

    def wrap(self, message: bytes) -> bytes:
        return self._framing.wrap(message)

    def feed(self, octets: bytes) -> list[bytes]:
        return self._framing.feed(octets, 0.0)


class _Pace:
    """Bytes on their way, one frame after the other."""

    def __init__(self, octets_per_s: float | None) -> None:
        self._octets_per_s = octets_per_s
        self._free_at = 0.0

    def send(self, octets: int, deliver: Callable[[], None]) -> None:
        if self._octets_per_s is None:
            deliver()
            return
        loop = asyncio.get_running_loop()
        self._free_at = max(self._free_at, loop.time()) + octets / self._octets_per_s
        loop.call_at(self._free_at, deliver)


class _Relay(asyncio.DatagramProtocol):
    def __init__(self, line: PtyLine, octets_per_s: float | None) -> None:
        self._line = line
        self._up, self._down = _Pace(octets_per_s), _Pace(octets_per_s)
        self._nodes: dict[Address, bytes] = {}
        self._addresses: dict[bytes, Address] = {}
        self._transport: asyncio.DatagramTransport
        line.on_message = self._from_line

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Address) -> None:
        node = self._nodes.get(addr)
        if node is None:
            node = self._nodes[addr] = len(self._nodes).to_bytes(NODE_ID_BYTES)
            self._addresses[node] = addr
        frame = self._line.framed(bytes((HEAD_BYTES, FORWARDED, 0)) + node + data)
        self._up.send(len(frame), lambda: self._line.send_octets(frame))

    def _from_line(self, message: bytes) -> None:
        address = self._addresses[message[3:HEAD_BYTES]]
        octets = len(self._line.framed(message))
        self._down.send(octets, lambda: self._transport.sendto(message[HEAD_BYTES:], address))


class LineRelay:
    """In a thread of its own inside the `with`."""

    def __init__(self, name: Path, kind: Kind, octets_per_s: float | None) -> None:
        self.port = 0
        self._name = name
        self._kind: Kind = kind
        self._octets_per_s = octets_per_s
        self._is_there = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="line relay")

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._is_there.wait(START_TIMEOUT_S):
            raise TimeoutError("the relay to the serial line did not start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        with closing(PtyLine(self._name, self._kind, _QuickFraming(self._kind))) as line:
            transport, _ = await self._loop.create_datagram_endpoint(
                lambda: _Relay(line, self._octets_per_s), local_addr=("127.0.0.1", 0)
            )
            self.port = transport.get_extra_info("sockname")[1]
            self._is_there.set()
            await self._over.wait()
            transport.close()
