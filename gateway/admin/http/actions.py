"""What may be changed from the page: signing in and out, and the operator's actions.

A request that changes something is a POST of one JSON object, carries the session's cookie and its
token (X-Tidegate-Token), and comes from this very origin. Each is logged, with who asked.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from microdot import Microdot, Request, Response

from gateway.admin.http.operating import (
    JOIN_S_MAX,
    PERMIT_MINUTES_MAX,
    RELEASE_MINUTES_MAX,
    Operations,
    Publication,
)
from gateway.admin.http.responses import RefusedError, guarded, json_response
from gateway.admin.http.sign_in import SESSION_S_MAX, Session, SignIn, SignInError, is_token_of
from gateway.admin.log.logs import fields

SESSION_SCHEMA = "tidegate.session/1"
TOKEN_HEADER = "X-Tidegate-Token"
TOPIC_LENGTH_MAX = 65_535
PASSWORD_LENGTH_MAX = 1024
PORT_LENGTH_MAX = 4096
NUMBERS_MAX = 1000

log = logging.getLogger("tidegate.admin")

Done = Callable[[Operations, dict[str, Any]], str | Awaitable[str]]


class Actions:
    def __init__(self, sign_in: SignIn, operating: Operations | None, port: Callable[[], int]):
        """`port`: cookies know no ports, and two gateways may be on one machine."""
        self._sign_in = sign_in
        self._operating = operating
        self._port = port

    def add_to(self, app: Microdot) -> None:
        app.get("/api/session")(guarded(self._session))
        app.post("/api/session")(guarded(self._begin))
        app.delete("/api/session")(guarded(self._end))
        for name, done in _ACTIONS.items():
            app.post(f"/api/actions/{name}")(guarded(self._doing(name, done)))

    def require(self, request: Request) -> Session:
        """Whose request this is. Raises RefusedError."""
        session = self._sign_in.session_of(request.cookies.get(self._cookie_name))
        if session is None:
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "sign in first")
        return session

    # Sessions

    async def _session(self, request: Request) -> Response:
        session = self._sign_in.session_of(request.cookies.get(self._cookie_name))
        body = {
            "schema": SESSION_SCHEMA,
            "can_sign_in": self._sign_in.is_possible,
            "signed_in": session is not None,
            "token": None if session is None else session.token,
        }
        return json_response(HTTPStatus.OK, body)

    async def _begin(self, request: Request) -> Response:
        self._refuse_foreign(request)
        password = _text(_object(request), "password", PASSWORD_LENGTH_MAX)
        host = str(request.client_addr[0])
        try:
            session = self._sign_in.begin(password, host)
        except SignInError as error:
            log.warning("nobody signed in: %s", error, extra=fields(peer=host))
            if error.wait_s:
                wait = {"Retry-After": str(int(error.wait_s) + 1)}
                raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, str(error), wait) from None
            raise RefusedError(HTTPStatus.FORBIDDEN, str(error)) from None
        log.info("signed in", extra=fields(peer=host))
        response = json_response(HTTPStatus.OK, {"token": session.token})
        age = int(SESSION_S_MAX)
        response.headers["Set-Cookie"] = (
            f"{self._cookie_name}={session.cookie}; Path=/; Max-Age={age}; HttpOnly; "
            "SameSite=Strict"
        )
        return response

    async def _end(self, request: Request) -> Response:
        self._sign_in.end(self._checked(request))
        response = json_response(HTTPStatus.OK, {})
        gone = f"{self._cookie_name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
        response.headers["Set-Cookie"] = gone
        return response

    @property
    def _cookie_name(self) -> str:
        return f"tidegate_{self._port()}"

    # Actions

    def _doing(self, name: str, done: Done) -> Callable[[Request], Awaitable[Response]]:
        async def act(request: Request) -> Response:
            self._checked(request)
            if self._operating is None:
                raise RefusedError(HTTPStatus.CONFLICT, "the gateway does not run yet")
            asked = _object(request)
            said = done(self._operating, asked)
            said = said if isinstance(said, str) else await said
            client = asked.get("client") if isinstance(asked.get("client"), str) else None
            host = str(request.client_addr[0])
            log.info(
                "asked on the page: %s, %s", name, said, extra=fields(client=client, peer=host)
            )
            return json_response(HTTPStatus.OK, {"done": said})

        return act

    def _checked(self, request: Request) -> Session:
        """The session of a request that may change something. Raises RefusedError."""
        self._refuse_foreign(request)
        session = self.require(request)
        if not is_token_of(session, request.headers.get(TOKEN_HEADER, "")):
            raise RefusedError(HTTPStatus.FORBIDDEN, f"{TOKEN_HEADER} is missing or another's")
        return session

    def _refuse_foreign(self, request: Request) -> None:
        """Browsers say where a POST comes from; who says nothing has no browser's cookies."""
        origin = request.headers.get("Origin")
        host = request.headers.get("Host", "")
        if origin is not None and (not host or origin.partition("://")[2] != host):
            raise RefusedError(HTTPStatus.FORBIDDEN, f"not from {origin[:100]}")
        kind = request.headers.get("Content-Type", "")
        if request.method == "POST" and not kind.startswith("application/json"):
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "only application/json")


# What may be asked for


def _pause(operating: Operations, _asked: dict[str, Any]) -> str:
    return operating.pause_drain()


def _resume(operating: Operations, _asked: dict[str, Any]) -> str:
    return operating.resume_drain()


def _forget(operating: Operations, asked: dict[str, Any]) -> str:
    retained = asked.get("retained", False)
    if not isinstance(retained, bool):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "retained is true or false")
    return operating.forget(_text(asked, "client", 255), retained=retained)


def _publish(operating: Operations, asked: dict[str, Any]) -> str:
    qos = asked.get("qos", 1)
    if type(qos) is not int or qos not in (0, 1, 2):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "qos is 0, 1 or 2")
    payload, is_hex = asked.get("payload", ""), asked.get("hex", False)
    if not isinstance(is_hex, bool):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "hex is true or false")
    if not isinstance(payload, str) or not _is_unicode(payload):
        raise RefusedError(
            HTTPStatus.BAD_REQUEST, "payload is a text, or hexadecimal with hex: true"
        )
    try:
        octets = bytes.fromhex(payload) if is_hex else payload.encode()
    except ValueError:
        message = "the payload is not hexadecimal: two digits of 0-9 and a-f for each byte"
        raise RefusedError(HTTPStatus.BAD_REQUEST, message) from None
    topic = _text(asked, "topic", TOPIC_LENGTH_MAX)
    return operating.publish(
        Publication(client_id=_text(asked, "client", 255), topic=topic, payload=octets, qos=qos)
    )


def _permit(operating: Operations, asked: dict[str, Any]) -> str:
    minutes = _minutes(asked, PERMIT_MINUTES_MAX, "for good, see admission.permit")
    return operating.permit(minutes)


def _join(operating: Operations, asked: dict[str, Any]) -> str:
    seconds = asked.get("seconds")
    if type(seconds) is not int or not 0 <= seconds <= JOIN_S_MAX:
        message = f"seconds is a whole number from 0 to {JOIN_S_MAX}, 0 to end it"
        raise RefusedError(HTTPStatus.BAD_REQUEST, message)
    return operating.join(seconds)


def _approve(operating: Operations, asked: dict[str, Any]) -> str:
    return operating.approve(_text(asked, "client", 255))


def _reject(operating: Operations, asked: dict[str, Any]) -> str:
    return operating.reject(_text(asked, "client", 255))


def _release(operating: Operations, asked: dict[str, Any]) -> Awaitable[str]:
    minutes = _minutes(asked, RELEASE_MINUTES_MAX, "for good, take its [[serial]] away")
    return operating.release(_text(asked, "line", PORT_LENGTH_MAX), minutes)


def _send_aside(operating: Operations, asked: dict[str, Any]) -> str:
    return operating.send_aside(_numbers(asked))


def _delete_aside(operating: Operations, asked: dict[str, Any]) -> str:
    return operating.delete_aside(_numbers(asked))


def _numbers(asked: dict[str, Any]) -> list[int] | None:
    """None for all."""
    numbers = asked.get("numbers")
    if numbers == "all":
        return None
    if not isinstance(numbers, list) or not 0 < len(numbers) <= NUMBERS_MAX:
        message = f'numbers is "all" or a list of 1 to {NUMBERS_MAX} numbers'
        raise RefusedError(HTTPStatus.BAD_REQUEST, message)
    if not all(type(one) is int for one in numbers):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "numbers are whole numbers")
    return numbers


_ACTIONS: dict[str, Done] = {
    "pause": _pause,
    "resume": _resume,
    "forget": _forget,
    "publish": _publish,
    "permit": _permit,
    "join": _join,
    "join_approve": _approve,
    "join_reject": _reject,
    "release": _release,
    "aside_send": _send_aside,
    "aside_delete": _delete_aside,
}


def _minutes(asked: dict[str, Any], most: int, advice: str) -> float:
    minutes = asked.get("minutes")
    if isinstance(minutes, bool) or not isinstance(minutes, int | float):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "minutes is a number, 0 to end it")
    if not 0 <= minutes <= most:
        raise RefusedError(HTTPStatus.BAD_REQUEST, f"minutes is from 0 to {most}; {advice}")
    return float(minutes)


class _OddJsonError(Exception):
    """What Python's parser takes and others read otherwise, in a sentence."""


def _object(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(
            request.body or b"{}", object_pairs_hook=_once_each, parse_constant=_no_constant
        )
    except _OddJsonError as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, str(error)) from None
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "the body is one JSON object")
    return body


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _OddJsonError("the body has a name twice in one object")
    return found


def _no_constant(name: str) -> None:
    raise _OddJsonError(f"the body has {name}, which is no number of JSON")


def _is_unicode(text: str) -> bool:
    """A JSON text may name half of a character."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _text(asked: dict[str, Any], name: str, length_max: int) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= length_max or not _is_unicode(value):
        message = f"{name} is a text of 1 to {length_max} characters"
        raise RefusedError(HTTPStatus.BAD_REQUEST, message)
    return value
