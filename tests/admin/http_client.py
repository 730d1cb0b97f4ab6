"""HTTP as bytes, so that a test can be as wrong as it wants."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

from gateway.admin.clients import ClientsFound
from gateway.admin.event_log import EventLog
from gateway.admin.http.queries import ClientsQuery, TopicsQuery
from gateway.admin.http.server import AdminServer
from gateway.admin.http.sign_in import accounts_of_password
from gateway.admin.http.sources import Sources
from gateway.admin.topics import TopicsFound
from tests.admin.example import NUMBERS, news

ANSWER_TIMEOUT_S = 200.0


class Listening(Protocol):
    listening_on: tuple[str, int]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)


async def nobody(_query: ClientsQuery) -> ClientsFound:
    return ClientsFound([])


async def nothing(_query: TopicsQuery) -> TopicsFound:
    return TopicsFound([])


def sources(told: EventLog | None = None, **given: Any) -> Sources:
    """What is given, over the sources of a gateway without clients."""
    usual: dict[str, Any] = {
        "name": "greenhouse",
        "version": "0.1.0",
        "now": monotonic,
        "numbers": lambda: NUMBERS,
        "clients": nobody,
        "topics": nothing,
        "news": told or news(),
    }
    if "password" in given:
        given["accounts"] = accounts_of_password(given.pop("password"))
    return Sources(**(usual | given))


@asynccontextmanager
async def serving(
    *, told: EventLog | None = None, connection_s_max: float = 5.0, **given: Any
) -> AsyncIterator[AdminServer]:
    """`given` as in `Sources`."""
    server = AdminServer(
        ("127.0.0.1", 0), sources(told, **given), connection_s_max=connection_s_max
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def get(server: Listening, path: str, method: str = "GET", **headers: str) -> Answer:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return answer_of(await exchange(server, f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode()))


async def post(server: Listening, path: str, body: object, **headers: str) -> Answer:
    """`body`: as bytes if it is not to be JSON, or to be odd."""
    octets = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content_Type": "application/json", "Content_Length": str(len(octets))} | headers
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items())
    head = f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode()
    return answer_of(await exchange(server, head + octets))


async def session_headers(server: Listening, user: str, password: str) -> dict[str, str]:
    """Those of a page on which this user has signed in. `get` makes all headers small; a cookie's
    value is not.
    """
    body = json.dumps({"user": user, "password": password}).encode()
    head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    raw = await exchange(server, b"POST /api/session HTTP/1.1\r\n" + head + body)
    cookie = re.search(rb"Set-Cookie: ([^;]+);", raw)
    assert cookie is not None, raw
    return {"Cookie": cookie[1].decode(), "X-Tidegate-Token": answer_of(raw).json["token"]}


async def exchange(server: Listening, request: bytes, *, hang_up: bool = False) -> bytes:
    """Everything that comes back until the server closes; nothing if it resets."""
    async with asyncio.timeout(ANSWER_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(*server.listening_on)
        try:
            writer.write(request)
            if hang_up:
                writer.write_eof()
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.transport.abort()


def answer_of(octets: bytes) -> Answer:
    head, _, body = octets.partition(b"\r\n\r\n")
    start, *lines = head.decode().split("\r\n")
    version, status, _ = start.split(" ", 2)
    assert version == "HTTP/1.0"
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(status), headers, body)
