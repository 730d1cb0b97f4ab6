"""The page while the configuration is wrong: what is wrong, where, and what would be right.

It answers as long as nothing else does: no sensor is served, no broker spoken to. Health says 503.
It answers under any name: which ones are right is a part of what is wrong, and there is nothing to
be done on it and no secret in it.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from microdot import Request, Response

from gateway.admin.http.application import answering, application, file_response
from gateway.admin.http.connections import CONNECTION_S_MAX, Connections
from gateway.admin.http.responses import guarded, json_response, of_any

FAULTS_SCHEMA = "tidegate.faults/1"
REASON = "the configuration is wrong: the page and the log say where"


class FaultPage:
    """`faults`: what is wrong at the moment, as JSON."""

    def __init__(
        self,
        listen: tuple[str, int],
        version: str,
        faults: Callable[[], dict[str, Any]],
    ) -> None:
        self.listening_on = listen
        self._version = version
        self._faults = faults
        app = application()
        app.get("/")(guarded(self._page))
        app.get("/api/faults")(guarded(of_any(self._problems)))
        for path in ("/healthz", "/readyz"):
            app.get(path)(guarded(of_any(_health)))
        self._connections = Connections(
            answer=answering(app, None), connection_s_max=CONNECTION_S_MAX
        )

    async def start(self) -> None:
        """Raises AdminError with a sentence for the operator."""
        self.listening_on = await self._connections.start(*self.listening_on)

    async def stop(self) -> None:
        await self._connections.stop()

    async def _page(self, request: Request) -> Response:
        return file_response(request, "fault.html")

    def _problems(self) -> Response:
        body = {"schema": FAULTS_SCHEMA, "version": self._version, **self._faults()}
        return json_response(HTTPStatus.OK, body)


def _health() -> Response:
    check = {"configuration": {"ok": False, "reason": REASON}}
    body = {"status": "failing", "checks": check}
    return json_response(HTTPStatus.SERVICE_UNAVAILABLE, body)
