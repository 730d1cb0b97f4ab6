"""What may be changed over HTTP: only by who is signed in, from this origin, with the token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gateway.admin.http.connections import BODY_BYTES_MAX
from gateway.admin.http.operating import CannotError, Publication
from gateway.admin.http.server import AdminServer
from gateway.admin.http.sign_in import ATTEMPTS_MAX
from tests.admin.conftest import Log, Run
from tests.admin.http_client import Answer, get, post, serving, session_headers

ACTIONS: list[tuple[str, dict[str, object], str]] = [
    ("pause", {}, "pause"),
    ("resume", {}, "resume"),
    ("forget", {"client": "well"}, "forget well"),
    ("forget", {"client": "well", "retained": True}, "forget well retained"),
    ("publish", {"client": "well", "topic": "cmd", "payload": "on"}, "publish well cmd b'on' 1"),
    (
        "publish",
        {"client": "well", "topic": "cmd", "payload": "00 ff", "hex": True, "qos": 2},
        "publish well cmd b'\\x00\\xff' 2",
    ),
    ("permit", {"minutes": 5}, "permit 5.0"),
    ("join", {"seconds": 254}, "join 254"),
    ("join_approve", {"client": "well"}, "approve well"),
    ("join_reject", {"client": "well"}, "reject well"),
    ("release", {"line": "serial0", "minutes": 240}, "release serial0 240.0"),
    ("aside_send", {"numbers": [1, 7]}, "send [1, 7]"),
    ("aside_send", {"numbers": "all"}, "send None"),
    ("aside_delete", {"numbers": [2]}, "delete [2]"),
]
WRONG: list[tuple[str, object, str]] = [
    ("forget", {}, "client is a text"),
    ("forget", {"client": ""}, "client is a text"),
    ("forget", {"client": 7}, "client is a text"),
    ("forget", {"client": "well", "retained": 1}, "retained is true or false"),
    ("publish", {"client": "well", "topic": "cmd", "qos": 3}, "qos is 0, 1 or 2"),
    ("publish", {"client": "well", "topic": "cmd", "qos": True}, "qos is 0, 1 or 2"),
    ("publish", {"client": "well", "topic": "cmd", "payload": 1}, "payload is a text"),
    ("publish", {"client": "well", "topic": "cmd", "payload": "xyz", "hex": True}, "hexadecimal"),
    ("publish", {"client": "well", "payload": "on"}, "topic is a text"),
    ("permit", {}, "minutes is a number"),
    ("join", {"seconds": 255}, "from 0 to 254"),
    ("join", {"seconds": True}, "seconds is a whole number"),
    ("join", {"seconds": -1}, "from 0 to 254"),
    ("permit", {"minutes": True}, "minutes is a number"),
    ("permit", {"minutes": -1}, "from 0 to 1440"),
    ("permit", {"minutes": 1e9}, "from 0 to 1440"),
    ("release", {"line": "serial0"}, "minutes is a number"),
    ("release", {"minutes": 5}, "line is a text"),
    ("release", {"line": "serial0", "minutes": 241}, "from 0 to 240; for good, take"),
    ("pause", [], "one JSON object"),
    ("aside_send", {}, 'numbers is "all" or a list'),
    ("aside_send", {"numbers": []}, 'numbers is "all" or a list'),
    ("aside_delete", {"numbers": list(range(1001))}, 'numbers is "all" or a list'),
    ("aside_delete", {"numbers": [True]}, "whole numbers"),
    ("publish", {"client": "well", "topic": "cmd", "qos": 1.0}, "qos is 0, 1 or 2"),
    ("publish", {"client": "well", "topic": "cmd", "qos": [1]}, "qos is 0, 1 or 2"),
    ("publish", {"client": "well", "topic": "cmd", "hex": "no"}, "hex is true or false"),
    ("publish", {"client": "well", "topic": "cmd", "payload": "\ud800"}, "payload is a text"),
    ("publish", {"client": "well", "topic": "\udfff"}, "topic is a text"),
    ("forget", {"client": {"id": "well"}}, "client is a text"),
    ("forget", {"client": "\ud800"}, "client is a text"),
    ("forget", {"client": "x" * 256}, "client is a text of 1 to 255"),
    ("permit", {"minutes": None}, "minutes is a number"),
    ("permit", {"minutes": "5"}, "minutes is a number"),
    ("permit", {"minutes": 10**300}, "from 0 to 1440"),
    ("aside_send", {"numbers": [1.5]}, "whole numbers"),
    ("aside_send", {"numbers": "none"}, 'numbers is "all" or a list'),
]
# As bytes, of which no such value could be made.
ODD: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{'minutes': 5}", "one JSON object"),
    "cut off": (b'{"minutes": 5', "one JSON object"),
    "two objects": (b'{"minutes": 5}{"minutes": 5}', "one JSON object"),
    "something behind": (b'{"minutes": 5}\0', "one JSON object"),
    "null": (b"null", "one JSON object"),
    "a text": (b'"minutes"', "one JSON object"),
    "a number": (b"5", "one JSON object"),
    "no UTF-8": (b'{"minutes": 5, "\xff": 1}', "one JSON object"),
    "a control character": (b'{"minutes": 5, "a": "\n"}', "one JSON object"),
    "a name twice": (b'{"minutes": 5, "minutes": 1}', "a name twice"),
    "a name twice further in": (b'{"minutes": 5, "a": [{"b": 1, "b": 2}]}', "a name twice"),
    "a name twice by an escape": (b'{"minutes": 5, "\\u006dinutes": 1}', "a name twice"),
    "no number": (b'{"minutes": NaN}', "NaN, which is no number"),
    "no number elsewhere": (b'{"minutes": 5, "a": NaN}', "NaN, which is no number"),
    "infinity": (b'{"minutes": -Infinity}', "-Infinity, which is no number"),
    "beyond all numbers": (b'{"minutes": 1e999}', "from 0 to 1440"),
    "too many digits": (b'{"minutes": 1%s}' % (b"0" * 5000), "one JSON object"),
    "deep lists": (b'{"minutes": ' + b"[" * 100_000, "one JSON object"),
    "deep lists, whole": (b'{"a":%s%s}' % (b"[" * 80_000, b"]" * 80_000), "one JSON object"),
    "deep objects": (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, "one JSON object"),
    "nothing but blanks": (b" " * 100_000, "one JSON object"),
}


@dataclass
class Noted:
    """Says what was asked for."""

    asked: list[str] = field(default_factory=list)

    def _note(self, what: str) -> str:
        self.asked.append(what)
        return what

    def pause_drain(self) -> str:
        return self._note("pause")

    def resume_drain(self) -> str:
        return self._note("resume")

    def forget(self, client_id: str, *, retained: bool = False) -> str:
        if client_id == "nobody":
            raise CannotError("no sensor 'nobody' is known")
        return self._note(f"forget {client_id}" + (" retained" if retained else ""))

    def publish(self, publication: Publication) -> str:
        one = publication
        return self._note(f"publish {one.client_id} {one.topic} {one.payload!r} {one.qos}")

    def permit(self, minutes: float) -> str:
        return self._note(f"permit {minutes}")

    def join(self, seconds: int) -> str:
        return self._note(f"join {seconds}")

    def approve(self, client_id: str) -> str:
        return self._note(f"approve {client_id}")

    def reject(self, client_id: str) -> str:
        return self._note(f"reject {client_id}")

    def send_aside(self, numbers: Sequence[int] | None) -> str:
        return self._note(f"send {numbers}")

    def delete_aside(self, numbers: Sequence[int] | None) -> str:
        return self._note(f"delete {numbers}")

    async def release(self, line: str, minutes: float) -> str:
        return self._note(f"release {line} {minutes}")


@asynccontextmanager
async def signed_in(noted: Noted) -> AsyncIterator[tuple[AdminServer, dict[str, str]]]:
    """The headers of somebody who is."""
    async with serving(operating=noted, password=b"tide") as server:
        answer = await post(server, "/api/session", {"password": "tide"})
        assert answer.status == 200
        cookie = answer.headers["set-cookie"]
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        yield server, await headers_of(server)


async def headers_of(server: AdminServer) -> dict[str, str]:
    headers = await session_headers(server, "tidegate", "tide")
    return {name.replace("X-Tidegate-Token", "X_Tidegate_Token"): headers[name] for name in headers}


@pytest.mark.parametrize(("name", "body", "done"), ACTIONS)
def test_who_is_signed_in_may_act(
    run: Run, log: Log, name: str, body: dict[str, object], done: str
) -> None:
    noted = Noted()

    async def story() -> None:
        async with signed_in(noted) as (server, headers):
            log.read()
            answer = await post(server, f"/api/actions/{name}", body, **headers)
            assert (answer.status, answer.json) == (200, {"done": done})

    run(story())
    assert noted.asked == [done]
    (line,) = log.read()
    assert line.startswith(f"<6>INFO  tidegate.admin asked on the page: {name}, ")
    assert "peer=127.0.0.1" in line


@pytest.mark.parametrize("missing", ["Cookie", "X_Tidegate_Token"])
@pytest.mark.parametrize(("name", "body", "_done"), ACTIONS)
def test_without_cookie_or_token_nothing_is_done(
    run: Run, missing: str, name: str, body: dict[str, object], _done: str
) -> None:
    noted = Noted()

    async def story() -> None:
        async with signed_in(noted) as (server, headers):
            given = {each: value for each, value in headers.items() if each != missing}
            answer = await post(server, f"/api/actions/{name}", body, **given)
            assert answer.status == (401 if missing == "Cookie" else 403)

    run(story())
    assert noted.asked == []


@pytest.mark.parametrize(
    ("extra", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"X_Tidegate_Token": "another"}, 403),
        ({"Origin": "http://page.localhost", "Host": "page.localhost"}, 200),
    ],
)
def test_a_foreign_page_can_do_nothing(run: Run, extra: dict[str, str], status: int) -> None:
    noted = Noted()

    async def story() -> None:
        async with signed_in(noted) as (server, headers):
            answer = await post(server, "/api/actions/pause", {}, **(headers | extra))
            assert answer.status == status

    run(story())
    assert len(noted.asked) == (status == 200)


@pytest.mark.parametrize(("name", "body", "words"), WRONG)
def test_what_makes_no_sense_is_refused_with_what_would(
    run: Run, name: str, body: object, words: str
) -> None:
    noted = Noted()

    async def story() -> None:
        async with signed_in(noted) as (server, headers):
            answer = await post(server, f"/api/actions/{name}", body, **headers)
            assert answer.status == 400
            assert words in answer.json["error"]

    run(story())
    assert noted.asked == []


@pytest.mark.parametrize("name", ODD)
def test_odd_json_is_refused_with_a_sentence(run: Run, log: Log, name: str) -> None:
    data, words = ODD[name]
    noted = Noted()

    async def story() -> None:
        async with signed_in(noted) as (server, headers):
            log.read()
            answer = await post(server, "/api/actions/permit", data, **headers)
            assert (answer.status, words in answer.json["error"]) == (400, True), answer.json
            answer = await post(server, "/api/session", data)
            assert answer.status == 400
            assert answer.json["error"]

    run(story())
    assert noted.asked == []
    assert log.read() == []


def test_a_body_beyond_the_limit_is_refused_unread(run: Run) -> None:
    noted = Noted()

    async def story() -> None:
        async with signed_in(noted) as (server, headers):
            fits = b'{"minutes": 5}'.ljust(BODY_BYTES_MAX)
            assert (await post(server, "/api/actions/permit", fits, **headers)).status == 200
            answer = await post(server, "/api/actions/permit", fits + b" ", **headers)
            assert (answer.status, "at most 163840 bytes" in answer.json["error"]) == (413, True)
            large = await post(server, "/api/actions/permit", fits * 4, **headers)
            assert large.status == 413

    run(story())
    assert len(noted.asked) == 1


def test_what_cannot_be_done_is_said_in_its_own_words(run: Run) -> None:
    async def story() -> None:
        async with signed_in(Noted()) as (server, headers):
            answer = await post(server, "/api/actions/forget", {"client": "nobody"}, **headers)
            assert (answer.status, answer.json["error"]) == (409, "no sensor 'nobody' is known")

    run(story())


def test_without_a_password_the_page_only_shows(run: Run) -> None:
    noted = Noted()

    async def story() -> None:
        async with serving(operating=noted) as server:
            session = (await get(server, "/api/session")).json
            assert (session["can_sign_in"], session["signed_in"]) == (False, False)
            assert (await post(server, "/api/session", {"password": ""})).status == 400
            assert (await post(server, "/api/session", {"password": "x"})).status == 403
            assert (await post(server, "/api/actions/pause", {})).status == 401
            assert (await get(server, "/api/buffer/export")).status == 401

    run(story())
    assert noted.asked == []


def test_a_session_is_shown_to_its_own_cookie_and_ends(run: Run) -> None:
    async def story() -> None:
        async with signed_in(Noted()) as (server, headers):
            assert (await get(server, "/api/session")).json["token"] is None
            mine = await get(server, "/api/session", Cookie=headers["Cookie"])
            assert mine.json["token"] == headers["X_Tidegate_Token"]
            assert (await get(server, "/api/session", "DELETE")).status == 401
            assert (await get(server, "/api/session", "DELETE", **headers)).status == 200
            assert (await post(server, "/api/actions/pause", {}, **headers)).status == 401

    run(story())


def test_who_guesses_is_told_to_wait_and_logged(run: Run, log: Log) -> None:
    async def wrong(server: AdminServer) -> Answer:
        return await post(server, "/api/session", {"password": "guess"})

    async def story() -> None:
        async with serving(password=b"tide") as server:
            answers = [await wrong(server) for _ in range(ATTEMPTS_MAX + 1)]
            assert [each.status for each in answers] == [403] * ATTEMPTS_MAX + [429]
            assert 0 < int(answers[-1].headers["retry-after"]) <= 61

    run(story())
    lines = log.read()
    assert len(lines) == ATTEMPTS_MAX + 1
    assert all("not signed in" in line and "peer=127.0.0.1" in line for line in lines)
    assert "guess" not in "".join(lines)


def test_an_export_that_cannot_be_made_is_refused(run: Run) -> None:
    async def busy() -> AsyncIterator[bytes]:
        raise CannotError("somebody else reads the journal just now")
        yield b""

    async def story() -> None:
        async with serving(operating=Noted(), password=b"tide", export=busy) as server:
            await post(server, "/api/session", {"password": "tide"})
            headers = await headers_of(server)
            answer = await get(server, "/api/buffer/export", Cookie=headers["Cookie"])
            assert (answer.status, "somebody else" in answer.json["error"]) == (409, True)

    run(story())


def test_an_export_is_for_who_is_signed_in(run: Run) -> None:
    async def exported() -> AsyncIterator[bytes]:
        yield b'{"seq":0}\n'
        yield b'{"seq":1}\n'

    async def story() -> None:
        async with serving(operating=Noted(), password=b"tide", export=exported) as server:
            await post(server, "/api/session", {"password": "tide"})
            headers = await headers_of(server)
            answer = await get(server, "/api/buffer/export", Cookie=headers["Cookie"])
            assert answer.body == b'{"seq":0}\n{"seq":1}\n'
            assert answer.headers["content-disposition"].startswith("attachment; filename=")
            head = await get(server, "/api/buffer/export", "HEAD", Cookie=headers["Cookie"])
            assert (head.status, head.body) == (200, b"")

    run(story())
