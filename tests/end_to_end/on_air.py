"""What the tests of the protocol share: a node that speaks octet by octet, and names of messages.

Whether a node hears nothing is never a matter of waiting: it asks for PINGRESP, and what would have
come first is then missing in front of it. Loopback keeps the order of datagrams.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import aioudp

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import ScriptedClient, framed, u16

CONNECT, CONNACK, WILLTOPICREQ, WILLTOPIC, WILLMSGREQ, WILLMSG = range(0x04, 0x0A)
REGISTER, REGACK, PUBLISH, PUBACK, PUBCOMP, PUBREC, PUBREL = range(0x0A, 0x11)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = range(0x12, 0x19)
WILLTOPICUPD, WILLTOPICRESP, WILLMSGUPD, WILLMSGRESP = range(0x1A, 0x1E)

DUP, RETAIN, WILL, CLEAN = 0x80, 0x10, 0x08, 0x04
PREDEFINED, SHORT, RESERVED = 1, 2, 3
ACCEPTED, CONGESTION, INVALID_TOPIC_ID, NOT_SUPPORTED = (b"\x00", b"\x01", b"\x02", b"\x03")

STORY_TIMEOUT_S = 200.0
RETRY_AFTER_S, RETRY_COUNT_MAX = 0.2, 3
SHORT_RETRIES = f"[mqtt_sn]\nretry_after_s = {RETRY_AFTER_S}\nretry_count_max = {RETRY_COUNT_MAX}\n"

_numbers = itertools.count(1)
_Given = ParamSpec("_Given")


def story(
    told: Callable[_Given, Coroutine[object, object, None]],
) -> Callable[_Given, None]:
    """A test that awaits."""

    @wraps(told)
    def test(*args: _Given.args, **kwargs: _Given.kwargs) -> None:
        asyncio.run(asyncio.wait_for(told(*args, **kwargs), STORY_TIMEOUT_S))

    return test


def fresh(word: str = "n") -> str:
    """A name that no other test of this run has: for client ids and topics."""
    return f"{word}{next(_numbers)}"


def _fresh_host(*, towards: str) -> str:
    """To send from. The kernel gives a closed port out again, and to the gateway, which heard no
    DISCONNECT, who speaks from there is still the client of the test before."""
    if not towards.startswith("127."):
        return towards
    high, low = divmod(next(_numbers), 250)
    return f"127.1.{high}.{low + 1}"


def long_form(kind: int, body: bytes) -> bytes:
    return b"\x01" + u16(len(body) + 4) + bytes((kind,)) + body


class Node(ScriptedClient):
    """A sensor that may also misbehave."""

    host: str

    async def send(self, datagram: bytes) -> None:
        await self._connection.send(datagram)

    async def hears(self, kind: int, body: bytes = b"") -> None:
        heard = framed(*await self.hear()).hex(" ")
        expected = framed(kind, body).hex(" ")
        assert heard == expected, f"heard {heard}, expected {expected}"

    async def asks(self, kind: int, body: bytes, answer: int, content: bytes = b"") -> None:
        await self.say(kind, body)
        await self.hears(answer, content)

    async def hears_nothing(self) -> None:
        """Nothing has come up to now that was not read."""
        await self.asks(PINGREQ, b"", PINGRESP)

    async def asks_in_vain(self, kind: int, body: bytes = b"") -> None:
        await self.say(kind, body)
        await self.hears_nothing()

    async def accepts_register(self, name: str) -> int:
        """REGISTER comes for this name; its id."""
        kind, body = await self.hear()
        assert (kind, body[4:]) == (REGISTER, name.encode())
        await self.say(REGACK, body[:4] + ACCEPTED)
        return int.from_bytes(body[:2], "big")

    async def bequeaths(self, topic: str, payload: bytes, flags: int = 0x20) -> None:
        """Names a will, which is published when this client is lost."""
        await self.asks(WILLTOPICUPD, bytes((flags,)) + topic.encode(), WILLTOPICRESP, ACCEPTED)
        await self.asks(WILLMSGUPD, payload, WILLMSGRESP, ACCEPTED)

    async def leave(self) -> None:
        await self.asks(DISCONNECT, b"", DISCONNECT)

    async def is_a_stranger(self) -> None:
        """The gateway knows nobody at this address. Its answers to unknown peers are limited."""
        for _ in range(20):
            await self.say(PINGREQ)
            try:
                kind, _ = await asyncio.wait_for(self.hear(), 0.5)
            except TimeoutError:
                continue
            assert kind == DISCONNECT
            return
        raise AssertionError("never an answer")


@asynccontextmanager
async def node(
    port: int,
    client_id: str | None = None,
    host: str = "127.0.0.1",
    *,
    from_host: str | None = None,
) -> AsyncIterator[Node]:
    """A node at an address that no other of this run has had, or at a host that is named; it has
    not connected yet.
    """
    client_id = fresh() if client_id is None else client_id
    from_host = _fresh_host(towards=host) if from_host is None else from_host
    async with aioudp.connect(host, port, local_addr=(from_host, 0)) as connection:
        made = Node(connection, client_id)
        made.host = from_host
        yield made


@asynccontextmanager
async def connected(
    port: int,
    client_id: str | None = None,
    *,
    clean: bool = True,
    keep_alive_s: int = 60,
    host: str = "127.0.0.1",
) -> AsyncIterator[Node]:
    async with node(port, client_id, host) as made:
        await made.connect(clean=clean, keep_alive_s=keep_alive_s)
        yield made


@contextmanager
def serving(folder: Path, broker: Mosquitto, config: str = "") -> Iterator[GatewayProcess]:
    """A gateway with its broker; it must never have had to tell of an exception."""
    with GatewayProcess(folder, broker.url, config) as running:
        running.wait_until_connected()
        yield running
        assert_untroubled(running)


def assert_untroubled(gateway: GatewayProcess) -> None:
    log = gateway.log
    trouble = [line for line in log.splitlines() if "Traceback" in line or " ERROR" in line]
    told = [*trouble[:5], f"... {len(trouble)} lines of trouble; the log ends:", log[-2000:]]
    assert not trouble, "\n".join(told)
