"""The client for asyncio: as `Client`, but its calls are awaited and other tasks go on meanwhile.

    client = AioClient(Udp(("192.168.1.10", 1883)), b"greenhouse-3")
    asyncio.create_task(client.serve())
    await client.publish(b"greenhouse/3/temperature", b"21.5", qos=1)

Rules
- Several tasks may call it; one request is open at a time, and the others wait for their turn.
- `serve` takes what comes and keeps the connection alive; without it messages come within calls.
- The transport is asked every POLL_MS whether something came: any transport will do, and of a
  board's asyncio no more is needed than `sleep` and `Lock`. Who sleeps deeply wants `Client`.
"""

import asyncio
from errno import ETIMEDOUT
from random import getrandbits

from .engine import Engine

try:
    from time import ticks_diff, ticks_ms  # type: ignore[attr-defined]

    from micropython import const
except ImportError:
    from .cpython import const, ticks_diff, ticks_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .client import OnMessage, Topic, Transport

_SILENCE = const(-1)
_LOST = const(-2)
_INVALID_TOPIC = const(2)
_DISCONNECT = const(0x18)
_TURNS_MAX = const(6)
_PERIOD_MAX = const((1 << 30) - 1)
_POLL_MS = const(10)
_AT_ONCE_MAX = const(4)  # frames taken before other tasks have their turn


class AioClient:
    def __init__(self, transport: "Transport", client_id: bytes, size: int = 256) -> None:
        """`size`: the bytes of the longest frame, in either direction."""
        self.transport = transport
        self.engine = Engine(client_id, bytearray(size), getrandbits)
        self.on_message: OnMessage | None = None
        self.subscriptions: dict[Topic, int] = {}  # QoS by topic
        self._heard = bytearray(size)
        self._at = ticks_ms()
        self._turn = asyncio.Lock()

    async def connect(self) -> None:
        """At the gateway that answered last, or else at the next one."""
        async with self._turn:
            await self._connect()

    async def publish(
        self, topic: "Topic", payload: bytes, qos: int = 0, retain: int = 0, again: int = 0
    ) -> None:
        async with self._turn:
            if qos > 0 and not again:
                self.engine.reading_id = 0
            for _ in range(_TURNS_MAX):
                self._step()
                if qos >= 0 and not self.engine.state:
                    await self._connect()
                is_reading = self.engine.publish(topic, payload, qos, retain)
                code = await self._answered()
                if not code and is_reading:
                    return
                if code and code != _LOST and not self._is_forgotten(code, is_reading, topic):
                    break
            self.engine.code = self.engine.code or _SILENCE
            self._check()

    async def subscribe(self, topic: "Topic", qos: int = 0) -> None:
        """`qos` below 0: unsubscribe."""
        await self.ask(self.engine.subscribe, topic, qos)
        self.subscriptions[topic] = qos
        if qos < 0:
            del self.subscriptions[topic]

    async def leave(self) -> None:
        """Good-bye."""
        await self.ask(self.engine.open, _DISCONNECT, _DISCONNECT, 0, 0, b"")

    async def ask(self, request: "Callable[..., Any]", *details: "Any") -> None:
        """Open a request as one who is connected; once more if the gateway had forgotten that."""
        async with self._turn:
            for _ in range(2):
                if not self.engine.state:
                    await self._connect()
                request(*details)
                if await self._answered() != _LOST:
                    break
            self._check()

    async def serve(self) -> None:
        """For ever: take what comes. Who is connected and is forgotten connects again."""
        was_there = 0
        while True:
            async with self._turn:
                self._step()
                if was_there and not self.engine.state and self.engine.code < 0:
                    try:
                        await self._connect()
                    except OSError:
                        pass  # and again, after the retries that this has taken
                was_there = was_there or self.engine.state
            await asyncio.sleep(_POLL_MS / 1000)

    def _is_forgotten(self, code: int, is_reading: bool, topic: "Topic") -> bool:
        return code == _INVALID_TOPIC and is_reading and not self.engine.number(topic)

    async def _connect(self) -> None:
        engine = self.engine
        is_known = engine.state
        for _ in range(self.transport.gateways):
            engine.connect()
            if not await self._answered():
                break
        self._check()
        if not is_known:
            for topic in self.subscriptions:
                engine.subscribe(topic, self.subscriptions[topic])
                await self._answered()

    async def _answered(self) -> int:
        """When the open request has ended, its code."""
        engine = self.engine
        self._step()
        while engine.size:
            await asyncio.sleep(_POLL_MS / 1000)
            self._step()
        if not engine.state and engine.code > _LOST:
            self.transport.next()
        return engine.code

    def _check(self) -> None:
        code = self.engine.code
        if code:
            raise OSError(-code if code > 0 else ETIMEDOUT)

    def _step(self) -> None:
        """Send what is due, and take what has come."""
        engine = self.engine
        now = ticks_ms()
        size = engine.due(ticks_diff(now, self._at) & _PERIOD_MAX)
        self._at = now
        if size:
            self.transport.send(engine.frame, size)
        for _ in range(_AT_ONCE_MAX):
            size = self.transport.receive(self._heard, 0)
            if size:
                self._take(size)

    def _take(self, size: int) -> None:
        engine = self.engine
        at = engine.receive(self._heard, size)
        try:
            if at and self.on_message is not None:
                payload = memoryview(self._heard)[at : engine.end]
                self.on_message(engine.topic, payload, bool(engine.retained))
        finally:
            if engine.answer_size > 0:
                self.transport.send(engine.answer, engine.answer_size)
            engine.answer_size = 0
