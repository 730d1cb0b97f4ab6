"""A correct sensor for bad times: it keeps a reading until it is acknowledged, whatever happens.

It is the scripted client, with an answer to all that can happen. What a correct sensor does here:
- It repeats what is not answered, PUBLISH with DUP and under the same message id; ids rise over the
  whole life of the sensor, so that none is used again too soon.
- It goes on without CONNECT until it is told DISCONNECT; then it connects, and on. Return code 0x02
  makes it register the topic again, 0x01 makes it wait and repeat the reading.
- It keeps its half of what it receives: the ids between PUBLISH and PUBREL at QoS 2, and the last
  ones completed, because a network may bring a PUBLISH once more after its PUBCOMP.

One thing is asked at a time. It stops with SensorError after TRIES_MAX.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from hil.rig.scripted_client import (
    CLEAN,
    CONNACK,
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    REGACK,
    REGISTER,
    Script,
    Steps,
    T,
    again,
    framed,
    id_in,
    opened,
    u16,
)

RETAIN = 0x10
ACCEPTED, CONGESTION, INVALID_TOPIC_ID = 0, 1, 2

TRIES_MAX = 400
CONGESTION_WAIT_S = 0.1
# A network that copies brings a PUBLISH again at once or a little later; ids do not come back soon.
COMPLETED_MAX = 16


class SensorError(Exception):
    """The gateway did not answer, or said what a correct sensor cannot act on."""


class _DisconnectedError(Exception):
    """The gateway knows us no more."""


@dataclass(slots=True)
class Reading:
    """Times are of the monotonic clock."""

    topic: str
    payload: bytes
    qos: int
    first_frame: bytes  # without DUP, as it was on the air
    sent_at: float
    acknowledged_at: float = 0.0

    @property
    def repeated_frame(self) -> bytes:
        """With DUP."""
        kind, body = opened(self.first_frame)
        return framed(kind, again(kind, body))


@dataclass(frozen=True, slots=True)
class Command:
    topic_id: int
    payload: bytes
    qos: int
    retain: bool


Answer = tuple[int, bytes]


@dataclass(eq=False)
class PatientSensor(Script, asyncio.DatagramProtocol):
    client_id: str
    clean: bool = False
    keep_alive_s: int = 60
    retry_s: float = 0.3
    acknowledged: list[Reading] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    # What it was told or had to do: connects, disconnected, congestion, repeats, registered again.
    counts: Counter[str] = field(default_factory=Counter)
    topic_ids: dict[str, int] = field(default_factory=dict)
    connected: bool = False
    asleep: bool = False  # its radio is off
    commands_changed: asyncio.Event = field(default_factory=asyncio.Event)
    _transport: asyncio.DatagramTransport = field(init=False)
    _message_id: int = 0
    _awaited: Callable[[int, bytes], bool] | None = None
    _answer: asyncio.Future[Answer] | None = None
    _receiving: dict[bytes, bytes] = field(default_factory=dict)
    _completed: deque[tuple[bytes, bytes]] = field(
        default_factory=lambda: deque(maxlen=COMPLETED_MAX)
    )

    @property
    def address(self) -> tuple[str, int]:
        address: tuple[str, int] = self._transport.get_extra_info("sockname")
        return address

    def close(self) -> None:
        """Say nothing: a sensor that lost its power says nothing either."""
        self._transport.close()

    # What the application of the sensor asks for

    async def connect(self) -> None:
        self.counts["connects"] += 1
        body = bytes((CLEAN * self.clean, 1)) + u16(self.keep_alive_s) + self.client_id.encode()
        for _ in range(TRIES_MAX):
            _, content = await self._ask(CONNECT, body, (CONNACK,))
            if content == b"\x00":
                self.connected = True
                return
            await asyncio.sleep(CONGESTION_WAIT_S)
        raise SensorError(f"{self.client_id}: CONNECT was never accepted")

    async def register(self, name: str) -> int:
        self.topic_ids[name] = await self._does(self.registering(name))
        return self.topic_ids[name]

    async def subscribe(self, topic_filter: str, qos: int) -> int:
        return await self._does(self.subscribing(topic_filter.encode(), qos=qos))

    async def publish(
        self, topic: str, payload: bytes, qos: int, *, retain: bool = False
    ) -> Reading:
        """Return when the reading is acknowledged, which may take many tries."""
        message_id = u16(self.next_id())
        flags = bytes((qos << 5 | RETAIN * retain,))
        if topic not in self.topic_ids:
            await self.register(topic)
        body = flags + u16(self.topic_ids[topic]) + message_id + payload
        reading = Reading(topic, payload, qos, framed(PUBLISH, body), time.monotonic())
        for _ in range(TRIES_MAX):
            if await self._is_taken(topic, body):
                break
            body = again(PUBLISH, flags + u16(self.topic_ids[topic]) + message_id + payload)
        else:
            raise SensorError(f"{self.client_id}: never room for {payload[:20]!r}")
        if qos == 2:
            await self._ask_as_member(PUBREL, message_id, (PUBCOMP,))
        reading.acknowledged_at = time.monotonic()
        self.acknowledged.append(reading)
        return reading

    async def _is_taken(self, topic: str, body: bytes) -> bool:
        """Whether the gateway took the reading on; if not, what it asked for has been done."""
        kind, answer = await self._ask_as_member(PUBLISH, body, (PUBACK, PUBREC))
        if kind == PUBREC or answer[4] == ACCEPTED:
            return True
        if answer[4] == INVALID_TOPIC_ID:
            self.counts["registered again"] += 1
            await self.register(topic)
        else:
            _require(answer[4] == CONGESTION, f"PUBACK {answer.hex(' ')}")
            self.counts["congestion"] += 1
            await asyncio.sleep(CONGESTION_WAIT_S)
        return False

    async def sleep(self, duration_s: int) -> None:
        """A gateway that does not know us says the same as one that does."""
        await self._ask(DISCONNECT, u16(duration_s), (DISCONNECT,))
        self.asleep = True

    async def wake(self) -> None:
        """Ask for what has come, and return when all of it is here."""
        self.asleep = False
        await self._ask_as_member(PINGREQ, self.client_id.encode(), (PINGRESP,))

    async def ping(self) -> None:
        """Say that it is there, and learn whether the gateway still knows it."""
        await self._ask_as_member(PINGREQ, b"", (PINGRESP,))

    async def heard(self, payloads: set[bytes], timeout_s: float) -> None:
        """Wait until commands with all of these have come."""
        try:
            async with asyncio.timeout(timeout_s):
                while missing := payloads - {command.payload for command in self.commands}:
                    self.commands_changed.clear()
                    await self.commands_changed.wait()
        except TimeoutError:
            raise SensorError(f"{self.client_id} never got {sorted(missing)[:5]}") from None

    # Asking

    async def _does(self, steps: Steps[T]) -> T:
        """A conversation of the script, whatever happens meanwhile."""
        try:
            kind, body, answer = next(steps)
            while True:
                assert answer is not None
                _, content = await self._ask_as_member(kind, body, (answer,))
                kind, body, answer = steps.send(content)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]

    async def _ask_as_member(self, kind: int, body: bytes, answers: tuple[int, ...]) -> Answer:
        while True:
            if not self.connected:
                await self.connect()
            try:
                return await self._ask(kind, body, answers)
            except _DisconnectedError:
                self.connected = False
                self.counts["disconnected"] += 1
                body = again(kind, body)
                # The way to be told so is short, the gateway may need a moment to listen again.
                await asyncio.sleep(self.retry_s / 10)

    async def _ask(self, kind: int, body: bytes, answers: tuple[int, ...]) -> Answer:
        """Send until one of `answers` comes, with the message id of the request if it has one."""
        _require(self._answer is None, "one thing at a time")
        message_id = id_in(kind, body)
        self._awaited = lambda heard, content: (
            heard in answers and id_in(heard, content) == message_id
        )
        try:
            for tries in range(TRIES_MAX):
                self.counts["repeats"] += tries > 0
                self._answer = asyncio.get_running_loop().create_future()
                self._transport.sendto(framed(kind, again(kind, body) if tries else body))
                # Not wait_for, which in Python 3.11 may swallow a cancellation.
                try:
                    async with asyncio.timeout(self.retry_s):
                        return await self._answer
                except TimeoutError:
                    continue
        finally:
            self._awaited = self._answer = None
        raise SensorError(f"{self.client_id}: no answer to {framed(kind, body).hex(' ')}")

    # What comes

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if self.asleep:
            return
        kind, body = opened(data)
        answer = self._answer
        if answer is not None and not answer.done():
            if self._awaited is not None and self._awaited(kind, body):
                answer.set_result((kind, body))
                return
            if kind == DISCONNECT and self.connected:
                answer.set_exception(_DisconnectedError())
                return
        self._serve(kind, body)

    def _serve(self, kind: int, body: bytes) -> None:
        if kind == REGISTER:
            self._transport.sendto(framed(REGACK, body[:4] + b"\x00"))
        elif kind == PUBLISH:
            self._receive(body)
        elif kind == PUBREL:
            payload = self._receiving.pop(body, None)
            if payload is not None:
                self._completed.append((body, payload))
            self._transport.sendto(framed(PUBCOMP, body))
        elif kind == PINGREQ:
            self._transport.sendto(framed(PINGRESP, b""))
        elif kind == DISCONNECT and self._answer is None:
            # Else it is a copy of the answer that has just come.
            self.connected = False

    def _receive(self, body: bytes) -> None:
        flags, topic_id, message_id, payload = body[0], body[1:3], body[3:5], body[5:]
        qos = flags >> 5 & 3
        command = Command(int.from_bytes(topic_id, "big"), payload, qos, bool(flags & RETAIN))
        if qos == 2:
            if message_id not in self._receiving and (message_id, payload) not in self._completed:
                self._note(command)
                self._receiving[message_id] = payload
            self._transport.sendto(framed(PUBREC, message_id))
        else:
            self._note(command)
            if qos == 1:
                self._transport.sendto(framed(PUBACK, topic_id + message_id + b"\x00"))

    def _note(self, command: Command) -> None:
        self.commands.append(command)
        self.commands_changed.set()


def _require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise SensorError(otherwise)


@asynccontextmanager
async def patient_sensor(
    port: int,
    client_id: str,
    *,
    clean: bool = False,
    keep_alive_s: int = 60,
    retry_s: float = 0.3,
) -> AsyncIterator[PatientSensor]:
    """Not connected yet: it does that when it first asks for something."""
    sensor = PatientSensor(client_id, clean, keep_alive_s, retry_s)
    await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: sensor, remote_addr=("127.0.0.1", port)
    )
    try:
        yield sensor
    finally:
        sensor.close()
