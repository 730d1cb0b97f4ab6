"""HTTP as octets, so that a test can be as wrong as it wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gateway.admin.answers import Check
from gateway.admin.clients import ClientsFound
from gateway.admin.news import News
from gateway.admin.numbers import Numbers
from gateway.admin.queries import ClientsQuery, TopicsQuery
from gateway.admin.server import AdminServer
from gateway.admin.topics import TopicsFound
from tests.admin.example import NUMBERS, news

ANSWER_TIMEOUT_S = 20.0


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


@asynccontextmanager
async def serving(
    *,
    checks: Mapping[str, Check] | None = None,
    ready_checks: Mapping[str, Check] | None = None,
    doubts: Mapping[str, Check] | None = None,
    numbers: Callable[[], Numbers] = lambda: NUMBERS,
    clients: Callable[[ClientsQuery], Awaitable[ClientsFound]] = nobody,
    topics: Callable[[TopicsQuery], Awaitable[TopicsFound]] = nothing,
    told: News | None = None,
    connection_s_max: float = 5.0,
) -> AsyncIterator[AdminServer]:
    server = AdminServer(
        ("127.0.0.1", 0),
        name="greenhouse",
        version="0.1.0",
        numbers=numbers,
        clients=clients,
        topics=topics,
        news=told or news(),
        checks=checks or {},
        ready_checks=ready_checks or {},
        doubts=doubts,
        connection_s_max=connection_s_max,
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def get(server: AdminServer, path: str, method: str = "GET") -> Answer:
    return answer_of(await exchange(server, f"{method} {path} HTTP/1.1\r\n\r\n".encode()))


async def exchange(server: AdminServer, request: bytes, *, hang_up: bool = False) -> bytes:
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
