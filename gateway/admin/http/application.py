"""What both servers of the page have in common: files, errors, and requests read by ourselves.

Microdot routes and formats. Sockets, limits and the reading of requests are ours
(connections.py): Microdot's own server prints a traceback for each malformed request, takes any
number of headers and waits for ever.
"""

from __future__ import annotations

import logging
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import cast

from microdot import AsyncBytesIO, Microdot, Request, Response, microdot

from gateway.admin.http import responses
from gateway.admin.http.assets import asset, read_all
from gateway.admin.http.connections import BODY_BYTES_MAX, HEAD_BYTES_MAX, Pieces, Received, Reply
from gateway.admin.http.hosts import Hosts
from gateway.admin.http.responses import Responder, error_response, json_response, plain_response

log = logging.getLogger("tidegate.admin")

# The bound is on the whole head; Microdot's own on each line would refuse large cookies.
Request.max_readline = HEAD_BYTES_MAX
Request.max_content_length = Request.max_body_length = BODY_BYTES_MAX


def _log_exception(error: BaseException) -> None:
    """Microdot would write a traceback to stderr, and wait if nobody reads it."""
    log.error("cannot answer", exc_info=error)


microdot.print_exception = _log_exception  # type: ignore[attr-defined]


def application() -> Microdot:
    """With the files of the page, and errors in JSON."""
    read_all()
    app = Microdot()
    app.get("/web/<name>")(file_response)
    for status in responses.ERRORS:
        app.errorhandler(status)(_always(status))
    # Else it would answer OPTIONS with 200 for paths that do not exist.
    app.options_handler = None  # type: ignore[assignment]
    return app


def file_response(request: Request, name: str) -> Response:
    found = asset(name)
    if found is None:
        return error_response(HTTPStatus.NOT_FOUND)
    status, body = HTTPStatus.OK, found.octets
    if request.headers.get("If-None-Match") == found.etag:
        status, body = HTTPStatus.NOT_MODIFIED, b""
    response = plain_response(status, body, found.content_type)
    response.headers.update({"ETag": found.etag, "Cache-Control": "no-cache"})
    return response


def answering(app: Microdot, hosts: Hosts | None) -> Callable[[Received], Awaitable[Reply]]:
    """For the connections: a reply to whatever came. Without `hosts` under any name."""

    async def answer(received: Received) -> Reply:
        response = await _response_to(app, hosts, received)
        for name, value in responses.HEADERS.items():
            response.headers.setdefault(name, value)
        pieces: Pieces | None = None
        if not isinstance(response.body, bytes):
            pieces = cast("Pieces", response.body)
            if response.is_head:
                await pieces.aclose()
                pieces = None
            response.is_head = True  # the body follows, piece by piece
        written = AsyncBytesIO(b"")
        await response.write(cast("StreamWriter", written))
        return Reply(written.stream.getvalue(), pieces)

    return answer


async def _response_to(app: Microdot, hosts: Hosts | None, received: Received) -> Response:
    if received.head is None:
        return error_response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    request = await _parsed(app, received)
    if request is None:
        return error_response(HTTPStatus.BAD_REQUEST)
    request.g.local = received.local
    host = request.headers.get("Host")
    objection = (
        None if hosts is None or received.local is not None else hosts.objection(host, request.path)
    )
    if objection is not None:
        return json_response(HTTPStatus.MISDIRECTED_REQUEST, {"error": objection})
    response = await app.dispatch_request(request)
    assert isinstance(response, Response)
    return response


async def _parsed(app: Microdot, received: Received) -> Request | None:
    stream = AsyncBytesIO((received.head or b"") + received.body)
    reader, writer = cast("StreamReader", stream), cast("StreamWriter", stream)
    try:
        return await Request.create(app, reader, writer, (received.host, 0))
    except Exception:
        # Microdot's way to say that it is malformed, and of whatever type it happens to be.
        return None


def _always(status: HTTPStatus) -> Responder:
    async def always(_request: Request) -> Response:
        return error_response(status)

    return always
