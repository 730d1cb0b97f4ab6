"""A proxy between the gateway and its broker that reads every packet, and can be a model.

It notes for each connection what the gateway sent and what came back, and what the gateway did that
the broker's CONNACK forbids (`violations`): more unacknowledged PUBLISHes than Receive Maximum, a
packet larger than Maximum Packet Size, a QoS, the retain flag or a subscription identifier that the
broker does not take. A model (`models.py`) may change what passes, answer in the broker's place, or
end the connection.

It runs in a thread of its own, so that a test may wait for processes meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

import mqtt5

from gateway.packets.codec import BadPacketError, packet_end, read_packet
from hil.rig.ports import HeldPort

READ_BYTES = 1 << 16
PACKET_BYTES_MAX = 1 << 28
REFUSED = 0x80
RECEIPTS = frozenset({4, 5, 7})  # PUBACK, PUBREC, PUBCOMP
# A network's way there and back, in which what a model's broker has answered can still be lost.
LATENCY_S = 0.02
_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a model makes of a packet of the gateway's: bytes to pass on, an answer in the broker's
    place, and whether the connection ends."""

    forward: bytes = b""
    answer: bytes = b""
    closes: bool = False


class Model(Protocol):
    def up(self, packet: Any, data: bytes, connection: Connection) -> Verdict: ...

    def down(self, packet: Any, data: bytes) -> bytes: ...


@dataclass(slots=True)
class Connection:
    """One of the gateway's, as it was seen from the middle."""

    sent: list[Any] = field(default_factory=list)
    received: list[Any] = field(default_factory=list)
    connack: mqtt5.ConnAckPacket | None = None
    is_3_1_1: bool = False
    in_flight: set[int] = field(default_factory=set)
    in_flight_max: int = 0
    largest: int = 0
    violations: list[str] = field(default_factory=list)

    def note_sent(self, packet: Any, data: bytes) -> None:
        self.sent.append(packet)
        self.largest = max(self.largest, len(data))
        connack = self.connack
        if connack is None:
            return
        limit = connack.max_packet_size
        if limit and len(data) > limit:
            self.violations.append(f"a packet of {len(data)} bytes, more than {limit}")
        if isinstance(packet, mqtt5.PublishPacket):
            self._note_publish(packet, connack)
        has_id = isinstance(packet, mqtt5.SubscribePacket) and packet.subscription_id is not None
        if has_id and not connack.subscription_id_available:
            self.violations.append("a subscription identifier, though they are not available")

    def _note_publish(self, packet: mqtt5.PublishPacket, connack: mqtt5.ConnAckPacket) -> None:
        if int(packet.qos) > int(connack.max_qos):
            self.violations.append(f"a PUBLISH at QoS {int(packet.qos)}, above Maximum QoS")
        if packet.retain and not connack.retain_available:
            self.violations.append("a retained PUBLISH, though Retain is not available")
        if packet.packet_id is None:
            return
        self.in_flight.add(packet.packet_id)
        self.in_flight_max = max(self.in_flight_max, len(self.in_flight))
        if len(self.in_flight) > connack.receive_max:
            self.violations.append(
                f"{len(self.in_flight)} in flight, more than {connack.receive_max}"
            )

    def note_received(self, packet: Any, codes: list[int]) -> None:
        self.received.append(packet)
        if isinstance(packet, mqtt5.ConnAckPacket):
            self.connack = packet
        elif isinstance(packet, mqtt5.PubAckPacket | mqtt5.PubCompPacket):
            self.in_flight.discard(packet.packet_id)
        elif isinstance(packet, mqtt5.PubRecPacket):
            code = codes[0] if codes else int(packet.reason_code)
            if code >= REFUSED:
                self.in_flight.discard(packet.packet_id)


class Tap:
    """Inside the `with` it listens; `target_port` is the broker's."""

    def __init__(self, target_port: int, model: Model | None = None) -> None:
        self.connections: list[Connection] = []
        self._target_port = target_port
        self._model = model
        self._held = HeldPort()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tap", daemon=True)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._holds_receipts = False
        self._held_receipts: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._held.close()

    # From tests

    @property
    def port(self) -> int:
        return self._held.number

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    @property
    def last(self) -> Connection:
        return self.connections[-1]

    @property
    def violations(self) -> list[str]:
        return [each for connection in self.connections for each in connection.violations]

    def sent(self, kind: type) -> list[Any]:
        """What the gateway sent of this kind, on all connections."""
        found = [each for connection in self.connections for each in connection.sent]
        return [each for each in found if isinstance(each, kind)]

    def open(self) -> None:
        self._do(self._open())

    def shut(self) -> None:
        """Connections end, and new ones are refused."""
        self._do(self._shut())

    def cut(self) -> None:
        """Connections end; new ones are taken."""
        self._do(self._cut())

    def hold_receipts(self) -> None:
        """What the broker acknowledges of readings waits; all else passes."""
        self._holds_receipts = True

    def pass_receipts(self) -> None:
        """Those of a connection that has ended are lost."""
        self._holds_receipts = False
        self._do(self._pass_held())

    # In its own thread

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10.0)

    async def _open(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._cut()

    async def _cut(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # asyncio's streams would log that `_cut` cancels.
        with contextlib.suppress(asyncio.CancelledError):
            try:
                far_reader, far = await asyncio.open_connection("127.0.0.1", self._target_port)
            except OSError:
                writer.transport.abort()
                return
            await _Passage(self, (reader, writer), (far_reader, far)).run()

    async def _pass_held(self) -> None:
        held, self._held_receipts = self._held_receipts, []
        for pass_on in held:
            pass_on()

    # From its connections

    @property
    def model(self) -> Model | None:
        return self._model

    def pass_or_hold(self, data: bytes, pass_on: Callable[[], None]) -> None:
        """A packet of the broker's."""
        if self._holds_receipts and data[0] >> 4 in RECEIPTS:
            self._held_receipts.append(pass_on)
        else:
            pass_on()


_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Passage:
    """One connection of the gateway's, both ways."""

    def __init__(self, tap: Tap, near: _Ends, far: _Ends) -> None:
        self._tap = tap
        self._reader, self._writer = near
        self._far_reader, self._far = far
        self._connection = Connection()
        tap.connections.append(self._connection)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._up())
                group.create_task(self._down())
        except* (ConnectionError, EOFError):
            pass
        finally:
            # A model's broker is gone with the answers that are under way.
            for each in (self._writer, self._far):
                each.close()

    async def _up(self) -> None:
        left = b""
        while data := await self._reader.read(READ_BYTES):
            left += data
            while (end := packet_end(left, 0, PACKET_BYTES_MAX)) is not None:
                packet, left = left[:end], left[end:]
                await self._up_packet(packet)
            await self._far.drain()
        raise EOFError

    async def _up_packet(self, data: bytes) -> None:
        packet, _, _ = read_packet(memoryview(data))
        self._connection.note_sent(packet, data)
        model = self._tap.model
        verdict = Verdict(data) if model is None else model.up(packet, data, self._connection)
        self._far.write(verdict.forward)
        if not verdict.closes:
            self._writer.write(verdict.answer)
            return
        await self._far.drain()
        if verdict.answer:
            self._writer.write(verdict.answer)
            await self._writer.drain()
        else:
            made: socket.socket = self._writer.get_extra_info("socket")
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        raise EOFError

    async def _down(self) -> None:
        left = b""
        while data := await self._far_reader.read(READ_BYTES):
            if self._tap.model is not None:
                await asyncio.sleep(LATENCY_S)
            left += data
            while (end := packet_end(left, 0, PACKET_BYTES_MAX)) is not None:
                packet, left = left[:end], left[end:]
                self._tap.pass_or_hold(packet, partial(self._pass_down, packet))
            await self._writer.drain()
        raise EOFError

    def _pass_down(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(self._down_packet(data))

    def _down_packet(self, data: bytes) -> bytes:
        try:
            packet, codes, _ = read_packet(memoryview(data))
        except BadPacketError:
            self._connection.is_3_1_1 = True
            return data
        if self._tap.model is not None:
            data = self._tap.model.down(packet, data)
            packet, codes, _ = read_packet(memoryview(data))
        self._connection.note_received(packet, codes)
        return data
