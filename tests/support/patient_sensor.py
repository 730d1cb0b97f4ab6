"""A correct sensor for bad times: it keeps a reading until it is acknowledged, whatever happens.

Octets are written by hand, as in `hand_written_sensor.py`. What a correct sensor does here:
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

from tests.support.hand_written_sensor import framed, opened, u16

CONNECT, CONNACK = 0x04, 0x05
REGISTER, REGACK, PUBLISH, PUBACK, PUBCOMP, PUBREC, PUBREL = range(0x0A, 0x11)
SUBSCRIBE, SUBACK = 0x12, 0x13
PINGREQ, PINGRESP, DISCONNECT = 0x16, 0x17, 0x18

DUP, RETAIN, CLEAN = 0x80, 0x10, 0x04
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
        return framed(kind, bytes((body[0] | DUP,)) + body[1:])


@dataclass(frozen=True, slots=True)
class Command:
    topic_id: int
    payload: bytes
    qos: int
    retain: bool


Answer = tuple[int, bytes]


@dataclass(eq=False)
class PatientSensor(asyncio.DatagramProtocol):
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

    def next_id(self) -> int:
        self._message_id = self._message_id % 0xFFFF + 1
        return self._message_id

    # What the application of the sensor asks for

    async def connect(self) -> None:
        self.counts["connects"] += 1
        body = bytes((CLEAN * self.clean, 1)) + u16(self.keep_alive_s) + self.client_id.encode()
        for _ in range(TRIES_MAX):
            _, content = await self._ask(lambda _: framed(CONNECT, body), CONNACK)
            if content == b"\x00":
                self.connected = True
                return
            await asyncio.sleep(CONGESTION_WAIT_S)
        raise SensorError(f"{self.client_id}: CONNECT was never accepted")

    async def register(self, name: str) -> int:
        message_id = u16(self.next_id())
        frame = framed(REGISTER, u16(0) + message_id + name.encode())
        _, body = await self._ask_as_member(lambda _: frame, REGACK, message_id)
        _require(body[4] == ACCEPTED, f"REGACK {body.hex(' ')}")
        self.topic_ids[name] = int.from_bytes(body[:2], "big")
        return self.topic_ids[name]

    async def subscribe(self, topic_filter: str, qos: int) -> int:
        message_id = u16(self.next_id())
        body = message_id + topic_filter.encode()
        _, answer = await self._ask_as_member(
            lambda tries: framed(SUBSCRIBE, bytes((DUP * (tries > 0) | qos << 5,)) + body),
            SUBACK,
            message_id,
        )
        _require(answer[5] == ACCEPTED, f"SUBACK {answer.hex(' ')}")
        return int.from_bytes(answer[1:3], "big")

    async def publish(
        self, topic: str, payload: bytes, qos: int, *, retain: bool = False
    ) -> Reading:
        """Return when the reading is acknowledged, which may take many tries."""
        message_id = u16(self.next_id())
        flags = qos << 5 | RETAIN * retain

        def frame(tries: int) -> bytes:
            topic_id = u16(self.topic_ids[topic])
            octet = bytes((flags | DUP * (tries > 0),))
            return framed(PUBLISH, octet + topic_id + message_id + payload)

        if topic not in self.topic_ids:
            await self.register(topic)
        reading = Reading(topic, payload, qos, frame(0), time.monotonic())
        tries = 0
        while not await self._offered(topic, frame, message_id, tries):
            tries += 1
            _require(tries < TRIES_MAX, f"{self.client_id}: never room for {payload[:20]!r}")
        if qos == 2:
            await self._ask_as_member(lambda _: framed(PUBREL, message_id), PUBCOMP, message_id)
        reading.acknowledged_at = time.monotonic()
        self.acknowledged.append(reading)
        return reading

    async def _offered(
        self, topic: str, frame: Callable[[int], bytes], message_id: bytes, tries_before: int
    ) -> bool:
        """Whether the gateway took the reading on; if not, what it asked for has been done."""
        kind, body = await self._ask_as_member(
            lambda tries: frame(tries_before + tries), (PUBACK, PUBREC), message_id
        )
        if kind == PUBREC or body[4] == ACCEPTED:
            return True
        if body[4] == INVALID_TOPIC_ID:
            self.counts["registered again"] += 1
            await self.register(topic)
        else:
            _require(body[4] == CONGESTION, f"PUBACK {body.hex(' ')}")
            self.counts["congestion"] += 1
            await asyncio.sleep(CONGESTION_WAIT_S)
        return False

    async def sleep(self, duration_s: int) -> None:
        """A gateway that does not know us says the same as one that does."""
        frame = framed(DISCONNECT, u16(duration_s))
        await self._ask(lambda _: frame, DISCONNECT)
        self.asleep = True

    async def wake(self) -> None:
        """Ask for what has come, and return when all of it is here."""
        self.asleep = False
        frame = framed(PINGREQ, self.client_id.encode())
        await self._ask_as_member(lambda _: frame, PINGRESP)

    async def ping(self) -> None:
        """Say that it is there, and learn whether the gateway still knows it."""
        await self._ask_as_member(lambda _: framed(PINGREQ, b""), PINGRESP)

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

    async def _ask_as_member(
        self,
        frame: Callable[[int], bytes],
        kinds: int | tuple[int, ...],
        message_id: bytes | None = None,
    ) -> Answer:
        tries = 0

        def counted(_: int) -> bytes:
            nonlocal tries
            tries += 1
            return frame(tries - 1)

        while True:
            if not self.connected:
                await self.connect()
            try:
                return await self._ask(counted, kinds, message_id)
            except _DisconnectedError:
                self.connected = False
                self.counts["disconnected"] += 1
                # The way to be told so is short, the gateway may need a moment to listen again.
                await asyncio.sleep(self.retry_s / 10)

    async def _ask(
        self,
        frame: Callable[[int], bytes],
        kinds: int | tuple[int, ...],
        message_id: bytes | None = None,
    ) -> Answer:
        """Send until one of `kinds` comes, with this message id if one is given."""
        kinds = (kinds,) if isinstance(kinds, int) else kinds
        _require(self._answer is None, "one thing at a time")

        def is_answer(kind: int, body: bytes) -> bool:
            return kind in kinds and (message_id is None or _id_in(kind, body) == message_id)

        self._awaited = is_answer
        try:
            for tries in range(TRIES_MAX):
                self.counts["repeats"] += tries > 0
                self._answer = asyncio.get_running_loop().create_future()
                self._transport.sendto(frame(tries))
                # Not wait_for, which in Python 3.11 may swallow a cancellation.
                try:
                    async with asyncio.timeout(self.retry_s):
                        return await self._answer
                except TimeoutError:
                    continue
        finally:
            self._awaited = self._answer = None
        raise SensorError(f"{self.client_id}: no answer to {frame(0).hex(' ')}")

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


def _id_in(kind: int, body: bytes) -> bytes:
    """Where an answer carries the id of what it answers (5.4)."""
    match kind:
        case 0x0B | 0x0D:  # REGACK, PUBACK
            return body[2:4]
        case 0x13:  # SUBACK
            return body[3:5]
        case _:
            return body[:2]


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
