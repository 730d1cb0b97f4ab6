"""The admin server: health, metrics, JSON, live updates and the page, on the gateway's own loop.

Here is which path answers with what; how requests are read and errors answered is in
application.py. This module brings Microdot with it. The daemon imports it only when `admin.listen`
is set.
"""

from __future__ import annotations

import logging
import time
from contextlib import aclosing
from http import HTTPStatus
from ssl import SSLContext
from typing import cast

from microdot import Microdot, Request, Response

from gateway.admin.aside import listed
from gateway.admin.audit import AuditEntry
from gateway.admin.clients import clients_json
from gateway.admin.http import answers
from gateway.admin.http.actions import Actions
from gateway.admin.http.application import answering, application, file_response
from gateway.admin.http.connections import (
    BACKLOG,
    CONNECTION_S_MAX,
    Connections,
    Pieces,
)
from gateway.admin.http.feed import RETRY_MS, Feeds
from gateway.admin.http.guard import Guard
from gateway.admin.http.hosts import Hosts
from gateway.admin.http.listening import AdminError
from gateway.admin.http.queries import clients_query, latest_query, log_query, topics_query
from gateway.admin.http.responses import (
    RefusedError,
    Responder,
    asked,
    guarded,
    json_response,
    of_any,
    plain_response,
)
from gateway.admin.http.sign_in import Accounts, Role, SignIn
from gateway.admin.http.sources import Sources
from gateway.admin.http.views import Statuses, latest_json, refused_body, view_of
from gateway.admin.log.tail import log_json
from gateway.admin.metrics.exposition import Metrics
from gateway.admin.topics import topics_json
from gateway.transports.tls import PageTls

__all__ = ["AdminError", "AdminServer"]

log = logging.getLogger("tidegate")

CONFIGURATION_SCHEMA = "tidegate.configuration/1"


class AdminServer:
    listening_on: tuple[str, int]

    def __init__(
        self,
        listen: tuple[str, int],
        sources: Sources,
        *,
        connection_s_max: float = CONNECTION_S_MAX,
        backlog: int = BACKLOG,
    ) -> None:
        self.listening_on = listen
        self._sources = sources
        self._statuses = Statuses(sources)
        self._feeds = Feeds(sources.pulse, sources.looked_at)
        self._tls = None if sources.tls is None else PageTls(sources.tls)
        self._sign_in = SignIn(sources.accounts, sources.now)
        self._guard = Guard(
            self._sign_in, lambda: self.listening_on[1], is_tls=sources.tls is not None
        )
        self._actions = Actions(self._guard, sources.operating, sources.audit)
        self._app = self._routed()
        self._connections = Connections(
            answer=answering(self._app, Hosts(sources.hosts)),
            connection_s_max=connection_s_max,
            backlog=backlog,
            slow=sources.slow,
            tls=None if self._tls is None else self._tls.context,
        )
        self._local = sources.socket

    async def start(self) -> None:
        """Listens; raises AdminError with a sentence for the operator. Sensors are served without
        the socket as well, as where a card has died that its file would be on.
        """
        self.listening_on = await self._connections.start(*self.listening_on)
        if self._local is None:
            return
        try:
            await self._connections.start_local(self._local)
        except AdminError as error:
            log.warning("%s", error)

    async def stop(self) -> None:
        await self._connections.stop()

    def use_accounts(self, accounts: Accounts) -> None:
        """From now on; who is signed in and has another password or role has to do it again."""
        self._sign_in.use(accounts)

    def use_certificate(self, tls: SSLContext) -> None:
        """For connections from now on. Whether there is TLS at all is for the next start."""
        if self._tls is not None:
            self._tls.use(tls)

    @property
    def scheme(self) -> str:
        return "http" if self._tls is None else "https"

    # What there is to read

    def _health(self) -> Response:
        sources = self._sources
        return json_response(*answers.health(sources.checks, sources.failures, sources.doubts))

    def _readiness(self) -> Response:
        sources = self._sources
        return json_response(*answers.readiness(sources.ready_checks, sources.numbers()))

    def _status(self) -> Response:
        sources = self._sources
        body = answers.status(sources.name, sources.version, sources.numbers(), sources.news)
        return json_response(HTTPStatus.OK, body)

    def _buffer(self) -> Response:
        sources = self._sources
        body = answers.buffer(sources.name, sources.numbers(), sources.news)
        return json_response(HTTPStatus.OK, body)

    def _configuration(self) -> Response:
        sources = self._sources
        body = {
            "schema": CONFIGURATION_SCHEMA,
            "gateway": sources.name,
            "settings": sources.configured(),
        }
        return json_response(HTTPStatus.OK, body)

    def _exposition(self) -> Response:
        sources = self._sources
        metrics = Metrics(sources.numbers, sources.news, sources.version)
        return plain_response(HTTPStatus.OK, *metrics.render())

    async def _clients(self, request: Request) -> Response:
        found = await self._sources.clients(clients_query(asked(request)))
        return json_response(HTTPStatus.OK, clients_json(self._sources.name, found, time.time()))

    async def _topics(self, request: Request) -> Response:
        found = await self._sources.topics(topics_query(asked(request)))
        return json_response(HTTPStatus.OK, topics_json(self._sources.name, found))

    async def _latest(self, request: Request) -> Response:
        query = latest_query(asked(request))
        return json_response(HTTPStatus.OK, latest_json(self._sources, query))

    async def _log(self, request: Request) -> Response:
        level, after = log_query(asked(request))
        tail = self._sources.log
        body = log_json(self._sources.name, tail, tail.lines(level, after))
        return json_response(HTTPStatus.OK, body)

    def _refused(self) -> Response:
        """What the rules of access did not allow."""
        return json_response(HTTPStatus.OK, refused_body(self._sources))

    async def _peek(self, _request: Request) -> Response:
        """The next readings on disk, as `tidegate buffer peek` shows them."""
        octets = await self._sources.peek()
        return plain_response(HTTPStatus.OK, octets, "application/json")

    async def _aside(self, _request: Request) -> Response:
        """The readings set aside, as `tidegate buffer aside` shows them."""
        return json_response(HTTPStatus.OK, listed(self._sources.name, self._sources.aside()))

    async def _export(self, request: Request) -> Response:
        """All of them as JSON lines, as `tidegate buffer export` writes them."""
        who = self._guard.require(request, Role.OPERATOR)
        entry = AuditEntry(who.name, who.role.word, "api", who.place, "export", {}, "exported")
        await self._sources.audit(entry)
        name = f"{self._sources.name}-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
        safe = "".join(
            one if (one.isascii() and one.isalnum()) or one in "-_." else "-" for one in name
        )
        headers = {
            "Content-Type": "application/jsonl",
            "Content-Disposition": f'attachment; filename="{safe}"',
        }
        pieces = self._sources.export()
        first = await anext(pieces, b"")  # what refuses does so before it is answered with 200
        return _in_pieces(_with(first, pieces), headers)

    async def _events(self, request: Request) -> Response:
        view = view_of(asked(request), self._sources, self._statuses)
        if self._feeds.is_full:
            wait = {"Retry-After": str(RETRY_MS // 1000)}
            message = "too many pages are open: close one"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, message, wait)
        headers = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        return _in_pieces(self._feeds.pieces(view), headers)

    async def _page(self, request: Request) -> Response:
        return file_response(request, "index.html")

    def _routed(self) -> Microdot:
        app = application()
        anyone: dict[str, Responder] = {
            "/": self._page,
            "/healthz": of_any(self._health),
            "/readyz": of_any(self._readiness),
        }
        viewers: dict[str, Responder] = {
            "/metrics": of_any(self._exposition),
            "/api/status": of_any(self._status),
            "/api/buffer": of_any(self._buffer),
            "/api/configuration": of_any(self._configuration),
            "/api/clients": self._clients,
            "/api/topics": self._topics,
            "/api/latest": self._latest,
            "/api/log": self._log,
            "/api/refused": of_any(self._refused),
            "/api/buffer/peek": self._peek,
            "/api/buffer/export": self._export,
            "/api/buffer/aside": self._aside,
            "/api/events": self._events,
        }
        for path, responder in anyone.items():
            app.get(path)(guarded(responder))
        for path, responder in viewers.items():
            app.get(path)(guarded(self._guard.needs(Role.VIEWER, responder)))
        self._actions.add_to(app)
        return app


async def _with(first: bytes, rest: Pieces) -> Pieces:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece


def _in_pieces(pieces: Pieces, headers: dict[str, str]) -> Response:
    return Response(cast("bytes", pieces), HTTPStatus.OK.value, headers)
