"""The admin server: health, metrics and status over HTTP, on the gateway's own event loop.

Microdot routes and formats. Sockets, limits and the reading of requests are ours
(connections.py): Microdot's own server prints a traceback for each malformed request, takes any
number of headers and waits for ever.

This module brings Microdot and prometheus_client with it. The daemon imports it only when
`admin.listen` is set.
"""

from __future__ import annotations

import json
import logging
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import cast

from microdot import AsyncBytesIO, Microdot, Request, Response

from gateway.admin import answers
from gateway.admin.answers import Check
from gateway.admin.clients import ClientsFound, clients_json
from gateway.admin.connections import CONNECTION_S_MAX, HEAD_BYTES_MAX, Connections
from gateway.admin.listening import AdminError, open_listener
from gateway.admin.metrics import Metrics
from gateway.admin.news import News
from gateway.admin.numbers import Numbers
from gateway.admin.page import STYLE_SOURCE, page
from gateway.admin.queries import (
    ClientsQuery,
    QueryError,
    TopicsQuery,
    clients_query,
    topics_query,
)
from gateway.admin.topics import TopicsFound, topics_json

__all__ = ["AdminError", "AdminServer"]

Responder = Callable[[Request], Awaitable[Response]]

log = logging.getLogger("tidegate.admin")

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"default-src 'none'; style-src {STYLE_SOURCE}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
ERRORS = {
    HTTPStatus.BAD_REQUEST: "this is not an HTTP request",
    HTTPStatus.NOT_FOUND: "there is nothing here; / lists what there is",
    HTTPStatus.METHOD_NOT_ALLOWED: "only GET and HEAD; nothing can be changed here",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "requests with a body are of no use here",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: f"at most {HEAD_BYTES_MAX} octets of head",
    HTTPStatus.INTERNAL_SERVER_ERROR: "a fault of Tidegate; its log says more",
}

# The bound is on the whole head; Microdot's own on each line would refuse large cookies.
Request.max_readline = HEAD_BYTES_MAX


class AdminServer:
    """`numbers` is asked for each response. A check says what is wrong, or None; a doubt as well,
    but is no reason to call the gateway dead.
    """

    listening_on: tuple[str, int]

    def __init__(
        self,
        listen: tuple[str, int],
        *,
        name: str,
        version: str,
        numbers: Callable[[], Numbers],
        clients: Callable[[ClientsQuery], Awaitable[ClientsFound]],
        topics: Callable[[TopicsQuery], Awaitable[TopicsFound]],
        news: News,
        checks: Mapping[str, Check],
        ready_checks: Mapping[str, Check],
        doubts: Mapping[str, Check] | None = None,
        connection_s_max: float = CONNECTION_S_MAX,
    ) -> None:
        self.listening_on = listen
        self._name = name
        self._version = version
        self._numbers = numbers
        self._find_clients = clients
        self._find_topics = topics
        self._news = news
        self._checks = checks
        self._ready_checks = ready_checks
        self._doubts = doubts
        self._metrics = Metrics(numbers, news, version)
        self._app = self._routed()
        self._connections = Connections(self._answer, connection_s_max)

    async def start(self) -> None:
        """Listens; raises AdminError with a sentence for the operator."""
        listener = open_listener(*self.listening_on)
        host, port = listener.getsockname()[:2]
        self.listening_on = (host, port)
        await self._connections.start(listener)

    async def stop(self) -> None:
        await self._connections.stop()

    # Routes

    def _health(self) -> Response:
        return _json(*answers.health(self._checks, self._doubts))

    def _readiness(self) -> Response:
        return _json(*answers.readiness(self._ready_checks, self._numbers()))

    def _status(self) -> Response:
        body = answers.status(self._name, self._version, self._numbers(), self._news)
        return _json(HTTPStatus.OK, body)

    def _buffer(self) -> Response:
        return _json(HTTPStatus.OK, answers.buffer(self._name, self._numbers(), self._news))

    async def _clients(self, request: Request) -> Response:
        found = await self._find_clients(clients_query(_asked(request)))
        return _json(HTTPStatus.OK, clients_json(self._name, found, time.time()))

    async def _topics(self, request: Request) -> Response:
        found = await self._find_topics(topics_query(_asked(request)))
        return _json(HTTPStatus.OK, topics_json(self._name, found))

    def _exposition(self) -> Response:
        body, content_type = self._metrics.render()
        return _response(HTTPStatus.OK, body, content_type)

    def _page(self) -> Response:
        body = page(self._name, self._version, self._numbers()).encode()
        return _response(HTTPStatus.OK, body, "text/html; charset=utf-8")

    def _routed(self) -> Microdot:
        app = Microdot()
        for path, answer in {
            "/": self._page,
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/metrics": self._exposition,
            "/api/status": self._status,
            "/api/buffer": self._buffer,
        }.items():
            app.get(path)(_guarded(_as_of_any(answer)))
        app.get("/api/clients")(_guarded(self._clients))
        app.get("/api/topics")(_guarded(self._topics))
        for status in ERRORS:
            app.errorhandler(status)(_always(status))
        # Else it would answer OPTIONS with 200 for paths that do not exist.
        app.options_handler = None  # type: ignore[assignment]
        return app

    # From the connections

    async def _answer(self, head: bytes | None) -> bytes:
        response = await self._response_to(head)
        response.headers.update(HEADERS)
        written = AsyncBytesIO(b"")
        await response.write(cast("StreamWriter", written))
        return written.stream.getvalue()

    async def _response_to(self, head: bytes | None) -> Response:
        if head is None:
            return _error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        request = await _parsed(self._app, head)
        if request is None:
            return _error(HTTPStatus.BAD_REQUEST)
        response = await self._app.dispatch_request(request)
        assert isinstance(response, Response)
        return response


async def _parsed(app: Microdot, head: bytes) -> Request | None:
    stream = AsyncBytesIO(head)
    reader, writer = cast("StreamReader", stream), cast("StreamWriter", stream)
    try:
        return await Request.create(app, reader, writer, ("", 0))
    except Exception:
        # Microdot's way to say that it is malformed, and of whatever type it happens to be.
        return None


def _as_of_any(answer: Callable[[], Response]) -> Responder:
    """Asynchronous, or Microdot would run it in a thread."""

    async def answering(_request: Request) -> Response:
        return answer()

    return answering


def _asked(request: Request) -> dict[str, str]:
    """What stands behind the question mark; of a name that is there twice, the first."""
    return {name: request.args[name] for name in request.args}


def _guarded(answer: Responder) -> Responder:
    async def guarded(request: Request) -> Response:
        try:
            return await answer(request)
        except QueryError as error:
            return _json(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except Exception:  # Microdot would print it
            log.exception("cannot answer")
            return _error(HTTPStatus.INTERNAL_SERVER_ERROR)

    return guarded


def _always(status: HTTPStatus) -> Responder:
    async def always(_request: Request) -> Response:
        return _error(status)

    return always


def _error(status: HTTPStatus) -> Response:
    response = _json(status, {"error": ERRORS[status]})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = "GET, HEAD"
    return response


def _json(status: HTTPStatus, body: Mapping[str, object]) -> Response:
    return _response(status, f"{json.dumps(body, indent=2)}\n".encode(), "application/json")


def _response(status: HTTPStatus, body: bytes, content_type: str) -> Response:
    return Response(body, status.value, {"Content-Type": content_type}, status.phrase)
