"""A sensor that knows nothing of our codec: octets written by hand, sent by aioudp.

What it expects is written as in the specification's tables, so that a mistake in `gateway.frames`
cannot hide behind the same mistake here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import aioudp

ANSWER_TIMEOUT_S = 10.0


def framed(kind: int, body: bytes) -> bytes:
    if len(body) + 2 < 256:
        return bytes((len(body) + 2, kind)) + body
    return b"\x01" + (len(body) + 4).to_bytes(2, "big") + bytes((kind,)) + body


def opened(datagram: bytes) -> tuple[int, bytes]:
    """Kind and body of a datagram that must be exactly one message."""
    if datagram[0] == 1:
        assert int.from_bytes(datagram[1:3], "big") == len(datagram), datagram.hex(" ")
        return datagram[3], datagram[4:]
    assert datagram[0] == len(datagram), datagram.hex(" ")
    return datagram[1], datagram[2:]


def u16(value: int) -> bytes:
    return value.to_bytes(2, "big")


class Wire(Protocol):
    """What carries datagrams: a socket, or a node's part in its forwarder's."""

    async def send(self, data: bytes) -> None: ...
    async def recv(self) -> bytes: ...


class HandWrittenSensor:
    def __init__(self, connection: Wire, client_id: str) -> None:
        self._connection = connection
        self._client_id = client_id.encode()
        self._message_id = 0

    async def say(self, kind: int, body: bytes = b"") -> None:
        await self._connection.send(framed(kind, body))

    async def hear(self) -> tuple[int, bytes]:
        return opened(await asyncio.wait_for(self._connection.recv(), ANSWER_TIMEOUT_S))

    async def ask(self, kind: int, body: bytes, answer: int) -> bytes:
        """Send something, and expect this kind of answer next, or behind a PUBLISH that is repeated
        because its acknowledgement is still on its way.
        """
        await self.say(kind, body)
        heard, content = await self.hear()
        while heard == 0x0C != answer and content[0] & 0x80:
            heard, content = await self.hear()
        assert heard == answer, f"{heard:#04x} {content.hex(' ')} instead of {answer:#04x}"
        return content

    async def connect(
        self, *, clean: bool = True, keep_alive_s: int = 60, will: bool = False
    ) -> None:
        flags = 0x04 * clean | 0x08 * will
        body = bytes((flags, 1)) + u16(keep_alive_s) + self._client_id
        assert await self.ask(0x04, body, 0x05) == b"\x00"

    async def register(self, name: str) -> int:
        body = await self.ask(0x0A, u16(0) + u16(self.next_id()) + name.encode(), 0x0B)
        assert body[2:] == u16(self._message_id) + b"\x00"
        return int.from_bytes(body[:2], "big")

    async def subscribe(self, name: bytes, *, qos: int = 0, kind: int = 0) -> int:
        body = await self.ask(0x12, bytes((qos << 5 | kind,)) + u16(self.next_id()) + name, 0x13)
        assert body[0] >> 5 & 3 == qos
        assert body[3:] == u16(self._message_id) + b"\x00", body.hex(" ")
        return int.from_bytes(body[1:3], "big")

    async def publish(
        self, topic: int, payload: bytes, *, qos: int = 0, kind: int = 0, retain: bool = False
    ) -> None:
        """Publish and go through the acknowledgements of the QoS."""
        message_id = self.next_id() if qos > 0 else 0
        flags = (qos & 3) << 5 | retain << 4 | kind
        body = bytes((flags,)) + u16(topic) + u16(message_id) + payload
        if qos <= 0:
            await self.say(0x0C, body)
        elif qos == 1:
            assert await self.ask(0x0C, body, 0x0D) == u16(topic) + u16(message_id) + b"\x00"
        else:
            assert await self.ask(0x0C, body, 0x0F) == u16(message_id)
            assert await self.ask(0x10, u16(message_id), 0x0E) == u16(message_id)

    async def message(self) -> tuple[int, int, bytes]:
        """The next PUBLISH, acknowledged: flags, topic id, payload; a REGISTER is accepted."""
        kind, body = await self.hear()
        if kind == 0x0A:
            await self.say(0x0B, body[:4] + b"\x00")
            kind, body = await self.hear()
        assert kind == 0x0C, f"{kind:#04x} {body.hex(' ')}"
        flags, topic, message_id, payload = body[0], body[1:3], body[3:5], body[5:]
        if flags >> 5 & 3 == 1:
            await self.say(0x0D, topic + message_id + b"\x00")
        elif flags >> 5 & 3 == 2:
            await self.say(0x0F, message_id)
            assert await self.hear() == (0x10, message_id)
            await self.say(0x0E, message_id)
        return flags, int.from_bytes(topic, "big"), payload

    def next_id(self) -> int:
        self._message_id += 1
        return self._message_id


@asynccontextmanager
async def sensor(
    port: int, client_id: str, host: str = "127.0.0.1"
) -> AsyncIterator[HandWrittenSensor]:
    async with aioudp.connect(host, port) as connection:
        yield HandWrittenSensor(connection, client_id)
