"""What answers have in common: headers, JSON, errors in one form, and how handlers are guarded."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from microdot import Request, Response

from gateway.admin.http.connections import BODY_BYTES_MAX, HEAD_BYTES_MAX
from gateway.admin.http.operating import CannotError
from gateway.admin.http.queries import QueryError

Responder = Callable[[Request], Awaitable[Response]]

log = logging.getLogger("tidegate.admin")

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",  # for browsers that know no frame-ancestors
}
ERRORS = {
    HTTPStatus.BAD_REQUEST: "this is not an HTTP request",
    HTTPStatus.NOT_FOUND: (
        "there is nothing here: the page is at /, and /api/status, /metrics, /healthz and /readyz "
        "are for programs"
    ),
    HTTPStatus.METHOD_NOT_ALLOWED: "not with this method; only /api/actions/ takes POST",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: f"at most {BODY_BYTES_MAX} bytes, to /api/ alone",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: f"at most {HEAD_BYTES_MAX} bytes of head",
    HTTPStatus.INTERNAL_SERVER_ERROR: "a fault of Tidegate; its log says more",
}


class RefusedError(Exception):
    """Why a request is not done, in a sentence."""

    def __init__(
        self, status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


def guarded(answer: Responder) -> Responder:
    async def answering(request: Request) -> Response:
        try:
            return await answer(request)
        except QueryError as error:
            return json_response(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except CannotError as error:
            return json_response(HTTPStatus.CONFLICT, {"error": str(error)})
        except RefusedError as error:
            response = json_response(error.status, {"error": str(error)})
            response.headers.update(dict(error.headers))
            return response
        except Exception:  # Microdot would print it
            log.exception("cannot answer")
            return error_response(HTTPStatus.INTERNAL_SERVER_ERROR)

    return answering


def of_any(answer: Callable[[], Response]) -> Responder:
    """Asynchronous, or Microdot would run it in a thread."""

    async def answering(_request: Request) -> Response:
        return answer()

    return answering


def error_response(status: HTTPStatus) -> Response:
    response = json_response(status, {"error": ERRORS[status]})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = "GET, HEAD"
    return response


def json_response(status: HTTPStatus, body: Mapping[str, object]) -> Response:
    octets = f"{json.dumps(body, indent=2)}\n".encode()
    return plain_response(status, octets, "application/json")


def plain_response(status: HTTPStatus, body: bytes, content_type: str) -> Response:
    return Response(body, status.value, {"Content-Type": content_type}, status.phrase)


def asked(request: Request) -> dict[str, str]:
    """What stands behind the question mark; of a name that is there twice, the first."""
    return {name: request.args[name] for name in request.args}
