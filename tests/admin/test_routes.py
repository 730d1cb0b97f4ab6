"""Every route, by every method, as everyone who may ask: what is answered, from one table.

A route that is added without a row fails here. The roles are those of docs/security.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.admin.http.passwords import hash_password, hash_token
from gateway.admin.http.server import AdminServer
from gateway.admin.http.sign_in import SESSION_S, Accounts, Role, Token, User
from tests.admin.conftest import Run
from tests.admin.example import Clock
from tests.admin.http_client import Answer, answer_of, exchange, serving, session_headers, sources
from tests.admin.test_actions import Noted

TOKENS = {"viewer token": "tg_looks", "operator token": "tg_acts"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
WHO = (
    "anonymous",
    "viewer",
    "operator",
    "operator without the token",
    "operator from another site",
    "expired session",
    "viewer token",
    "operator token",
    "wrong token",
)
# Who may read what: the others hear 401, or 403 if it is known who they are.
ANYONE = dict.fromkeys(WHO, 200)
VIEWERS = ANYONE | {"anonymous": 401, "expired session": 401, "wrong token": 401}
OPERATORS = VIEWERS | {"viewer": 403, "viewer token": 403}
ACTION = OPERATORS | {"operator without the token": 403, "operator from another site": 403}
SIGNING_IN = dict.fromkeys(WHO, 403) | {"operator from another site": 403}
SIGNING_OUT = dict.fromkeys(WHO, 401) | {
    "viewer": 200,
    "operator": 200,
    "operator without the token": 403,
    "operator from another site": 403,
}
ROWS: dict[tuple[str, str], Mapping[str, int]] = {
    ("GET", "/"): ANYONE,
    ("GET", "/web/<name>"): ANYONE,
    ("GET", "/healthz"): ANYONE,
    ("GET", "/readyz"): ANYONE,
    ("GET", "/metrics"): VIEWERS,
    ("GET", "/api/status"): VIEWERS,
    ("GET", "/api/clients"): VIEWERS,
    ("GET", "/api/topics"): VIEWERS,
    ("GET", "/api/latest"): VIEWERS,
    ("GET", "/api/log"): VIEWERS,
    ("GET", "/api/refused"): VIEWERS,
    ("GET", "/api/events"): VIEWERS,
    ("GET", "/api/configuration"): VIEWERS,
    ("GET", "/api/buffer"): VIEWERS,
    ("GET", "/api/buffer/peek"): VIEWERS,
    ("GET", "/api/buffer/aside"): VIEWERS,
    ("GET", "/api/buffer/export"): OPERATORS,
    ("GET", "/api/session"): ANYONE | {"wrong token": 401},
    ("POST", "/api/session"): SIGNING_IN,
    ("DELETE", "/api/session"): SIGNING_OUT,
    ("POST", "/api/actions/pause"): ACTION,
    ("POST", "/api/actions/resume"): ACTION,
    ("POST", "/api/actions/forget"): ACTION,
    ("POST", "/api/actions/publish"): ACTION,
    ("POST", "/api/actions/permit"): ACTION,
    ("POST", "/api/actions/join"): ACTION,
    ("POST", "/api/actions/join_approve"): ACTION,
    ("POST", "/api/actions/join_reject"): ACTION,
    ("POST", "/api/actions/release"): ACTION,
    ("POST", "/api/actions/aside_send"): ACTION,
    ("POST", "/api/actions/aside_delete"): ACTION,
}
BODIES: dict[str, dict[str, Any]] = {
    "/api/session": {"user": "viewer", "password": "wrong"},
    "/api/actions/forget": {"client": "well"},
    "/api/actions/publish": {"client": "well", "topic": "cmd", "payload": "on"},
    "/api/actions/permit": {"minutes": 5},
    "/api/actions/join": {"seconds": 120},
    "/api/actions/join_approve": {"client": "tank"},
    "/api/actions/join_reject": {"client": "tank"},
    "/api/actions/release": {"line": "serial0", "minutes": 5},
    "/api/actions/aside_send": {"numbers": "all"},
    "/api/actions/aside_delete": {"numbers": "all"},
}


def accounts() -> Accounts:
    users = {
        role: User(Role[role.upper()], hash_password(f"{role}'s", log_n=10, p=1))
        for role in ("viewer", "operator")
    }
    tokens = {
        hash_token(text): Token(name, Role[name.split()[0].upper()])
        for name, text in TOKENS.items()
    }
    return Accounts(users, tokens, anonymous=Role.NONE)


async def asked(
    server: AdminServer, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
) -> Answer:
    """Of a stream its head alone."""
    given = {"Content-Type": "application/json", "Content-Length": str(len(body))} | dict(headers)
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    request = f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body
    is_stream = path == "/api/events" and method == "GET"
    return answer_of(await exchange(server, request, hang_up=is_stream))


async def headers_of(server: AdminServer, who: str, clock: Clock) -> dict[str, str]:
    if who == "anonymous":
        return {}
    if who == "wrong token":
        return {"Authorization": "Bearer tg_made_up"}
    if who in TOKENS:
        return {"Authorization": f"Bearer {TOKENS[who]}"}
    if who == "expired session":
        headers = await session_headers(server, "operator", "operator's")
        clock.now += SESSION_S + 1
        return headers
    user = who.partition(" ")[0]
    headers = await session_headers(server, user, f"{user}'s")
    if who == "operator without the token":
        del headers["X-Tidegate-Token"]
    if who == "operator from another site":
        headers |= {"Origin": "https://evil.example", "Host": "localhost"}
    return headers


def test_each_route_has_a_row_and_each_row_a_route() -> None:
    app = AdminServer(("127.0.0.1", 0), sources())._app
    routed = {
        (method, route.url_pattern) for methods, route, *_ in app.url_map for method in methods
    }
    assert routed == ROWS.keys()


@pytest.mark.parametrize("who", WHO)
def test_each_route_answers_each_role_and_method_as_the_table_says(run: Run, who: str) -> None:
    async def story() -> None:
        clock, noted = Clock(), Noted()
        async with serving(operating=noted, accounts=accounts(), now=clock) as server:
            for (method, pattern), expected in ROWS.items():
                server._sign_in._of_host.forget("127.0.0.1")
                headers = await headers_of(server, who, clock)
                path = pattern.replace("<name>", "main.js")
                body = b"{}" if method == "GET" else _body(path)
                before = len(noted.asked)
                answer = await asked(server, method, path, headers, body)
                assert answer.status == expected[who], (who, method, path, answer.body)
                is_action = path.startswith("/api/actions/") and answer.status == 200
                assert len(noted.asked) == before + is_action

    run(story())


def _body(path: str) -> bytes:
    return json.dumps(BODIES.get(path, {})).encode()


def test_each_other_method_is_refused_whoever_asks(run: Run) -> None:
    async def story() -> None:
        noted, paths = Noted(), {path for _, path in ROWS}
        async with serving(operating=noted, accounts=accounts()) as server:
            headers = {"Authorization": f"Bearer {TOKENS['operator token']}"}
            for pattern in sorted(paths):
                path = pattern.replace("<name>", "main.js")
                known = {method for method, each in ROWS if each == pattern}
                known |= {"HEAD"} if "GET" in known else set()
                for method in METHODS:
                    if method not in known:
                        answer = await asked(server, method, path, headers, b"")
                        assert answer.status in (404, 405), (method, path, answer.status)
                if "HEAD" in known:
                    for who in ({}, headers):
                        seen = await asked(server, "HEAD", path, who)
                        read = await asked(server, "GET", path, who)
                        assert (seen.status, seen.body) == (read.status, b"")
        assert noted.asked == []

    run(story())


def test_without_users_all_is_shown_and_nothing_is_done(run: Run) -> None:
    async def story() -> None:
        noted = Noted()
        async with serving(operating=noted) as server:
            for (method, pattern), expected in ROWS.items():
                path = pattern.replace("<name>", "main.js")
                body = b"" if method == "GET" else _body(path)
                answer = await asked(server, method, path, {}, body)
                if method == "GET" and expected is not OPERATORS:
                    assert answer.status == 200, path
                else:
                    assert answer.status in (401, 403), path
        assert noted.asked == []

    run(story())


def test_a_refused_token_says_how_to_show_one(run: Run) -> None:
    async def story() -> None:
        async with serving(accounts=accounts()) as server:
            for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eDp5"}):
                answer = await asked(server, "GET", "/metrics", headers)
                assert answer.status == 401
                assert answer.headers["www-authenticate"] == 'bearer realm="tidegate"'

    run(story())
