"""The MQTT-SN client of tests and of `hil/boards/python`: it does what a script says.

It knows nothing of our codec. What it sends and expects is written byte by byte, as in the
specification's tables, so that a mistake in `gateway.frames` cannot hide behind the same mistake
here. `Script` has the conversations, without I/O: each is a generator that yields what is asked and
takes the answer. Who awaits uses `ScriptedClient`, who has a thread `BlockingClient`; both also
send and receive any bytes, so a test can let them be silent, repeat themselves, or do harm.
"""

from __future__ import annotations

import asyncio
import select
import socket
import time
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Protocol, Self, TypeVar, cast

import aioudp

ANSWER_TIMEOUT_S = 200.0
CLOSED_PORT_PAUSE_S = 0.002
CONNECT, CONNACK, WILLTOPICREQ, WILLTOPIC, WILLMSGREQ, WILLMSG = range(0x04, 0x0A)
REGISTER, REGACK, PUBLISH, PUBACK, PUBCOMP, PUBREC, PUBREL = range(0x0A, 0x11)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = range(0x12, 0x19)
DUP, WILL, CLEAN = 0x80, 0x08, 0x04
# Where the body has the message id of a request, and of its answer (5.4).
ID_AT = {REGISTER: 2, REGACK: 2, PUBLISH: 3, PUBACK: 2, PUBREC: 0, PUBREL: 0, PUBCOMP: 0,
         SUBSCRIBE: 1, SUBACK: 3, UNSUBSCRIBE: 1, UNSUBACK: 0}  # fmt: skip
WITH_DUP = (PUBLISH, SUBSCRIBE)

T = TypeVar("T")
Ask = tuple[int, bytes, int | None]  # kind and body of a request, and the kind of its answer
Steps = Generator[Ask, bytes, T]


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


def again(kind: int, body: bytes) -> bytes:
    """The body of a request that is repeated."""
    return bytes((body[0] | DUP,)) + body[1:] if kind in WITH_DUP else body


def id_in(kind: int, body: bytes) -> bytes:
    at = ID_AT.get(kind)
    return b"" if at is None else body[at : at + 2]


class Script:
    """Conversations of a client that is served. A refusal is an AssertionError."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self._message_id = 0

    def next_id(self) -> int:
        self._message_id = self._message_id % 0xFFFF + 1
        return self._message_id

    def connecting(
        self, *, clean: bool = True, keep_alive_s: int = 60, will: tuple[bytes, bytes] | None = None
    ) -> Steps[None]:
        """`will`: its topic and message, at QoS 1."""
        flags = CLEAN * clean | WILL * (will is not None)
        body = bytes((flags, 1)) + u16(keep_alive_s) + self.client_id.encode()
        if will is not None:
            assert (yield CONNECT, body, WILLTOPICREQ) == b""
            assert (yield WILLTOPIC, b"\x20" + will[0], WILLMSGREQ) == b""
            assert (yield WILLMSG, will[1], CONNACK) == b"\x00"
        else:
            assert (yield CONNECT, body, CONNACK) == b"\x00"

    def registering(self, name: str) -> Steps[int]:
        message_id = u16(self.next_id())
        answer = yield REGISTER, u16(0) + message_id + name.encode(), REGACK
        assert answer[2:] == message_id + b"\x00"
        return int.from_bytes(answer[:2], "big")

    def subscribing(self, name: bytes, *, qos: int = 0, kind: int = 0) -> Steps[int]:
        message_id = u16(self.next_id())
        answer = yield SUBSCRIBE, bytes((qos << 5 | kind,)) + message_id + name, SUBACK
        assert answer[0] >> 5 & 3 == qos
        assert answer[3:] == message_id + b"\x00", answer.hex(" ")
        return int.from_bytes(answer[1:3], "big")

    def publishing(
        self, topic: int, payload: bytes, *, qos: int = 0, kind: int = 0, retain: bool = False
    ) -> Steps[None]:
        """PUBLISH and the acknowledgements of its QoS."""
        message_id = u16(self.next_id() if qos > 0 else 0)
        flags = (qos & 3) << 5 | retain << 4 | kind
        body = bytes((flags,)) + u16(topic) + message_id + payload
        if qos <= 0:
            yield PUBLISH, body, None
        elif qos == 1:
            assert (yield PUBLISH, body, PUBACK) == u16(topic) + message_id + b"\x00"
        else:
            assert (yield PUBLISH, body, PUBREC) == message_id
            assert (yield PUBREL, message_id, PUBCOMP) == message_id

    def leaving(self, sleep_s: int = 0) -> Steps[None]:
        assert (yield DISCONNECT, u16(sleep_s) if sleep_s else b"", DISCONNECT) == b""


class Wire(Protocol):
    """What carries datagrams: a socket, or a node's part in its forwarder's."""

    async def send(self, data: bytes) -> None: ...
    async def recv(self) -> bytes: ...


class ScriptedClient(Script):
    def __init__(self, connection: Wire, client_id: str) -> None:
        super().__init__(client_id)
        self._connection = connection

    async def say(self, kind: int, body: bytes = b"") -> None:
        await self._connection.send(framed(kind, body))

    async def hear(self) -> tuple[int, bytes]:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return opened(await self._connection.recv())

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

    async def does(self, steps: Steps[T]) -> T:
        """All of a conversation."""
        try:
            kind, body, answer = next(steps)
            while True:
                content = b""
                if answer is None:
                    await self.say(kind, body)
                else:
                    content = await self.ask(kind, body, answer)
                kind, body, answer = steps.send(content)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]

    async def connect(
        self, *, clean: bool = True, keep_alive_s: int = 60, will: tuple[bytes, bytes] | None = None
    ) -> None:
        await self.does(self.connecting(clean=clean, keep_alive_s=keep_alive_s, will=will))

    async def register(self, name: str) -> int:
        return await self.does(self.registering(name))

    async def subscribe(self, name: bytes, *, qos: int = 0, kind: int = 0) -> int:
        return await self.does(self.subscribing(name, qos=qos, kind=kind))

    async def publish(
        self, topic: int, payload: bytes, *, qos: int = 0, kind: int = 0, retain: bool = False
    ) -> None:
        await self.does(self.publishing(topic, payload, qos=qos, kind=kind, retain=retain))

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


class BlockingClient(Script):
    """A UDP socket of its own. `retry_s`: repeat what is not answered for so long, with DUP, also
    while the port is closed; otherwise each request is sent once.
    """

    def __init__(
        self,
        port: int,
        client_id: str = "",
        *,
        source: str = "127.0.0.1",
        retry_s: float | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        super().__init__(client_id)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((source, 0))
        self.socket.connect(("127.0.0.1", port))
        self.socket.settimeout(retry_s or timeout_s)
        self._retry_s, self._timeout_s = retry_s, timeout_s
        self._steps: Steps[object] | None = None
        self._open: Ask = (0, b"", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, datagram: bytes) -> None:
        self.socket.send(datagram)

    def say(self, kind: int, body: bytes = b"") -> None:
        self.send(framed(kind, body))

    def heard(self) -> list[bytes]:
        """All datagrams that are there."""
        found = []
        while select.select([self.socket], [], [], 0)[0]:
            found.append(self.socket.recv(65536))
        return found

    def ask(self, kind: int, body: bytes, answer: int) -> bytes:
        """The body of the first answer of this kind and message id; others are passed over."""
        self._try(kind, body)
        return self._answer(kind, body, answer)

    def begin(self, steps: Steps[object]) -> None:
        """Send the first request of a conversation that `finish` goes through."""
        self._steps, self._open = steps, next(steps)
        self._try(*self._open[:2])

    def finish(self) -> object:
        """What the conversation returns."""
        assert self._steps is not None
        try:
            while True:
                kind, body, answer = self._open
                content = b"" if answer is None else self._answer(kind, body, answer)
                self._open = self._steps.send(content)
                self._try(*self._open[:2])
        except StopIteration as ended:
            return ended.value

    def does(self, steps: Steps[T]) -> T:
        """All of a conversation."""
        self.begin(steps)
        return cast("T", self.finish())

    def _try(self, kind: int, body: bytes) -> None:
        try:
            self.say(kind, body)
        except ConnectionRefusedError:
            if self._retry_s is None:
                raise

    def _answer(self, kind: int, body: bytes, answer: int) -> bytes:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                heard, content = opened(self.socket.recv(65536))
            except (TimeoutError, ConnectionRefusedError) as error:
                if self._retry_s is None or time.monotonic() > deadline:
                    raise
                if isinstance(error, ConnectionRefusedError):
                    time.sleep(CLOSED_PORT_PAUSE_S)
                body = again(kind, body)
                self._try(kind, body)
                continue
            if heard == answer and id_in(heard, content) == id_in(kind, body):
                return content
            known = heard != DISCONNECT or self._retry_s is None
            assert known, "the gateway does not know this client"


@asynccontextmanager
async def sensor(
    port: int, client_id: str, host: str = "127.0.0.1"
) -> AsyncIterator[ScriptedClient]:
    async with aioudp.connect(host, port) as connection:
        yield ScriptedClient(connection, client_id)
