"""What may be changed from the page: signing in and out, and the operator's actions.

A request that changes something is a POST of one JSON object, carries the session's cookie and its
token (X-Tidegate-Token), and comes from this very origin. Each is logged, with who asked, and is in
the audit log before it is answered.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from microdot import Microdot, Request, Response

from gateway.admin.audit import Audit, AuditEntry
from gateway.admin.http.guard import Guard, Who
from gateway.admin.http.operating import (
    PERMIT_MINUTES_MAX,
    RELEASE_MINUTES_MAX,
    CannotError,
    Operations,
    Publication,
)
from gateway.admin.http.responses import RefusedError, guarded, json_response
from gateway.admin.http.sign_in import OPERATOR, SESSION_S_MAX, Role, SignInError
from gateway.admin.log.logs import fields
from gateway.config.settings import JOIN_S_MAX

SESSION_SCHEMA = "tidegate.session/1"
TOPIC_LENGTH_MAX = 65_535
PASSWORD_LENGTH_MAX = 1024
USER_LENGTH_MAX = 64
# Of what was asked for, in the audit log: no payload.
RECORDED = ("client", "topic", "qos", "hex", "retained", "minutes", "seconds", "line", "numbers")
RECORDED_MAX = 256
PORT_LENGTH_MAX = 4096
NUMBERS_MAX = 1000

log = logging.getLogger("tidegate.admin")

Done = Callable[[Operations, dict[str, Any]], str | Awaitable[str]]


class Actions:
    def __init__(self, guard: Guard, operating: Operations | None, audit: Audit) -> None:
        self._guard = guard
        self._sign_in = guard.sign_in
        self._operating = operating
        self._audit = audit

    def add_to(self, app: Microdot) -> None:
        app.get("/api/session")(guarded(self._session))
        app.post("/api/session")(guarded(self._begin))
        app.delete("/api/session")(guarded(self._end))
        for name, done in _ACTIONS.items():
            app.post(f"/api/actions/{name}")(guarded(self._doing(name, done)))

    # Sessions

    async def _session(self, request: Request) -> Response:
        who = self._guard.who(request)
        session = who.session
        body = {
            "schema": SESSION_SCHEMA,
            "can_sign_in": self._sign_in.is_possible,
            "signed_in": session is not None,
            "token": None if session is None else session.token,
            "user": None if session is None else session.user,
            "role": who.role.word,
        }
        return json_response(HTTPStatus.OK, body)

    async def _begin(self, request: Request) -> Response:
        self._guard.refuse_foreign(request)
        asked = _object(request)
        password = _text(asked, "password", PASSWORD_LENGTH_MAX)
        user = _text(asked, "user", USER_LENGTH_MAX) if "user" in asked else OPERATOR
        host = str(request.client_addr[0])
        former = request.cookies.get(self._guard.cookie_name)
        try:
            session = await self._sign_in.begin(user, password, host, former)
        except SignInError as error:
            log.warning("not signed in: %s", error, extra=fields(peer=host))
            # Who tries without end fills no log: what waits is not recorded.
            if error.wait_s:
                wait = {"Retry-After": str(int(error.wait_s) + 1)}
                raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, str(error), wait) from None
            who = Who("anonymous", Role.NONE, host)
            await self._record(who, "sign_in", {"user": user}, str(error), is_done=False)
            raise RefusedError(HTTPStatus.FORBIDDEN, str(error)) from None
        log.info("signed in: %s", user, extra=fields(peer=host))
        who = Who(f"user:{user}", session.role, host, session)
        await self._record(who, "sign_in", {}, "signed in")
        body = {"token": session.token, "user": user, "role": session.role.word}
        response = json_response(HTTPStatus.OK, body)
        cookie, session.cookie = session.cookie, ""
        response.headers["Set-Cookie"] = self._guard.cookie(cookie, int(SESSION_S_MAX))
        return response

    async def _end(self, request: Request) -> Response:
        self._guard.refuse_foreign(request)
        if self._guard.who(request).session is None:
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "sign in first")
        who = self._guard.require_change(request, Role.NONE)
        self._sign_in.end(request.cookies.get(self._guard.cookie_name))
        await self._record(who, "sign_out", {}, "signed out")
        response = json_response(HTTPStatus.OK, {})
        response.headers["Set-Cookie"] = self._guard.cookie("", 0)
        return response

    # Actions

    def _doing(self, name: str, done: Done) -> Callable[[Request], Awaitable[Response]]:
        async def act(request: Request) -> Response:
            who = self._guard.require_change(request, Role.OPERATOR)
            if self._operating is None:
                raise RefusedError(HTTPStatus.CONFLICT, "the gateway does not run yet")
            asked = _object(request)
            try:
                said = done(self._operating, asked)
                said = said if isinstance(said, str) else await said
            except CannotError as error:
                await self._record(who, name, _recorded(asked), str(error), is_done=False)
                raise
            client = asked.get("client") if isinstance(asked.get("client"), str) else None
            where = "socket" if who.place.startswith("unix") else "page"
            log.info(
                "asked on the %s: %s, %s (%s)",
                where,
                name,
                said,
                who.name,
                extra=fields(client=client, peer=who.place),
            )
            await self._record(who, name, _recorded(asked), said)
            return json_response(HTTPStatus.OK, {"done": said})

        return act

    async def _record(
        self, who: Who, what: str, asked: Mapping[str, Any], said: str, *, is_done: bool = True
    ) -> None:
        is_here = who.place.startswith("unix")
        way = "cli" if is_here else "api" if who.session is None else "page"
        way = "page" if what == "sign_in" else way
        await self._audit(
            AuditEntry(who.name, who.role.word, way, who.place, what, asked, said, is_done)
        )


def _recorded(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, as far as it is safe and short: of a payload its length alone."""
    shown = {
        name: value
        for name, value in asked.items()
        if name in RECORDED and isinstance(value, str | int | float | list)
    }
    for name, value in shown.items():
        shown[name] = value[:RECORDED_MAX] if isinstance(value, str | list) else value
    payload = asked.get("payload")
    return shown | ({"payload_length": len(payload)} if isinstance(payload, str) else {})


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
