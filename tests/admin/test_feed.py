"""Live updates: what changed and nothing else, to a few pages, at a bounded pace."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import pytest

from gateway.admin.clients import ClientsFound, ClientShown
from gateway.admin.http.feed import FEEDS_MAX
from gateway.admin.http.queries import ClientsQuery
from gateway.admin.http.server import AdminServer
from gateway.admin.log.tail import LINES_MAX, LogTail
from gateway.core.state_records import ClientId, State
from gateway.core.values import Reading
from gateway.presence.latest import Latest
from tests.admin.conftest import Log, Run
from tests.admin.eventually import eventually
from tests.admin.http_client import answer_of, exchange, get, serving
from tests.admin.test_lists import SLEEPER

SOON_S = 5.0
QUIET_S = 1.6  # longer than from one look to the next


@dataclass
class Sensors:
    """Those that a gateway would have, and a word whenever one of them changes."""

    shown: dict[str, ClientShown] = field(default_factory=dict)
    changes: int = 0
    began: float = field(default_factory=monotonic)
    asked: list[ClientsQuery] = field(default_factory=list)

    def put(self, client_id: str, state: State = State.ACTIVE) -> None:
        self.shown[client_id] = replace(SLEEPER, client_id=client_id, state=state)
        self.changes += 1

    async def clients(self, query: ClientsQuery) -> ClientsFound:
        self.asked.append(query)
        age_s = monotonic() - self.began
        found = [
            replace(each, heard_s=age_s, due_s=600 - age_s)
            for _, each in sorted(self.shown.items())
        ]
        return ClientsFound(found[: query.limit], total=len(found))


class Listener:
    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def receive(self, wanted: str) -> Any:
        """The next event of this name."""
        async with asyncio.timeout(SOON_S):
            while True:
                name, body = await self._next()
                if name == wanted:
                    return body

    async def is_silent_but_for(self, *names: str) -> bool:
        """Whether nothing else comes for longer than a look takes."""
        try:
            async with asyncio.timeout(QUIET_S):
                while True:
                    name, _ = await self._next()
                    if name not in names:
                        return False
        except TimeoutError:
            return True

    async def _next(self) -> tuple[str, Any]:
        while not (line := await self._reader.readline()).startswith(b"event: "):
            assert line, "the server hung up"
        data = await self._reader.readline()
        return line[7:-1].decode(), json.loads(data.removeprefix(b"data: "))


@asynccontextmanager
async def listening(server: AdminServer, asked: str) -> AsyncIterator[Listener]:
    reader, writer = await asyncio.open_connection(*server.listening_on, limit=1 << 20)
    try:
        writer.write(f"GET /api/events?{asked} HTTP/1.1\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.0 200"), head
        assert b"text/event-stream" in head
        assert b"Content-Length" not in head
        yield Listener(reader)
    finally:
        writer.transport.abort()


def test_a_sensor_appears_and_changes_and_goes_and_nothing_else_is_sent(run: Run) -> None:
    sensors = Sensors()
    sensors.put("tank")

    async def story() -> None:
        served = serving(clients=sensors.clients, pulse=lambda: sensors.changes)
        async with served as server, listening(server, "view=devices&limit=9") as page:
            first = await page.receive("clients")
            assert (first["order"], first["total"]) == (["tank"], 1)
            assert first["rows"]["tank"]["state"] == "active"
            assert await page.is_silent_but_for("status")
            sensors.put("well")
            came = await page.receive("clients")
            assert (came["order"], list(came["rows"])) == (["tank", "well"], ["well"])
            sensors.put("tank", State.LOST)
            lost = await page.receive("clients")
            assert {name: row["state"] for name, row in lost["rows"].items()} == {"tank": "lost"}
            del sensors.shown["well"]
            gone = await page.receive("clients")
            assert (gone["order"], gone["rows"]) == (["tank"], {})
        assert sensors.asked[0] == ClientsQuery(limit=9)

    run(story())


def test_a_change_of_state_is_there_well_within_a_second(run: Run) -> None:
    sensors = Sensors()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        served = serving(clients=sensors.clients, pulse=lambda: sensors.changes)
        async with served as server, listening(server, "view=devices") as page:
            await page.receive("clients")
            for state in (State.ACTIVE, State.ASLEEP, State.LOST):
                sensors.put("tank", state)
                began = loop.time()
                await page.receive("clients")
                assert loop.time() - began < 0.9

    run(story())


def test_one_sensor_is_shown_with_what_it_said(run: Run) -> None:
    sensors, latest = Sensors(), Latest()
    sensors.put("tank")

    async def story() -> None:
        served = serving(clients=sensors.clients, latest=latest)
        async with served as server, listening(server, "view=device&id=tank") as page:
            assert (await page.receive("client"))["latest"] == []
            assert await page.is_silent_but_for("status"), "ages are no news"
            latest.receive(Reading(ClientId("tank"), "t", b"21.5", 1, False, 0, 0, 0.0))
            (strand,) = (await page.receive("client"))["latest"]
            assert strand["values"][0]["value"] == 21.5

    run(story())


def test_topics_are_told_when_something_was_said(run: Run) -> None:
    latest = Latest()

    async def story() -> None:
        async with serving(latest=latest) as server, listening(server, "view=topics") as page:
            assert (await page.receive("latest"))["total"] == 0
            latest.receive(Reading(ClientId("tank"), "t", b"on", 1, False, 0, 0, 0.0))
            assert (await page.receive("latest"))["latest"][0]["topic"] == "t"
            answer = (await get(server, "/api/latest?search=nobody")).json
            assert (answer["schema"], answer["total"]) == ("tidegate.latest/1", 0)

    run(story())


def tailed() -> tuple[LogTail, logging.Logger]:
    """A logger of its own, that nobody else hears."""
    tail, log = LogTail(), logging.getLogger("tidegate.feed-test")
    log.handlers, log.propagate = [tail], False
    log.setLevel(logging.DEBUG)
    return tail, log


def test_log_lines_are_told_once_from_their_level_on(run: Run) -> None:
    tail, log = tailed()
    log.info("before")

    async def story() -> None:
        async with serving(log=tail) as server, listening(server, "view=log&level=info") as page:
            (line,) = (await page.receive("log"))["lines"]
            assert line["text"].endswith("tidegate.feed-test before")
            log.debug("quiet")
            log.warning("loud\nline")
            (line,) = (await page.receive("log"))["lines"]
            assert (line["number"], line["level"]) == (3, "warning")
            assert line["text"].endswith("loud\\nline")
            assert len((await get(server, "/api/log")).json["lines"]) == 3
            assert len((await get(server, "/api/log?level=warning&after=1")).json["lines"]) == 1

    run(story())


def test_the_log_is_kept_within_bounds() -> None:
    tail, log = tailed()
    for number in range(LINES_MAX + 10):
        log.info("%d %s", number, "x" * 5000)
    lines = tail.lines("debug")
    assert (len(lines), lines[-1].number) == (LINES_MAX, LINES_MAX + 10)
    assert max(len(line.text) for line in lines) <= 1000


def test_the_buffer_is_what_the_verb_prints(run: Run) -> None:
    async def story() -> None:
        async with serving() as server, listening(server, "view=buffer") as page:
            assert await page.receive("buffer") == (await get(server, "/api/buffer")).json
            assert await page.is_silent_but_for("status")

    run(story())


def test_only_so_many_pages_are_live_and_a_closed_one_makes_room(run: Run) -> None:
    pages: list[int] = []

    async def story() -> None:
        async with serving(looked_at=pages.append) as server:
            open_pages = [listening(server, "view=overview") for _ in range(FEEDS_MAX)]
            for each in open_pages:
                await each.__aenter__()
            refused = answer_of(await exchange(server, b"GET /api/events HTTP/1.1\r\n\r\n"))
            assert (refused.status, refused.headers["retry-after"]) == (503, "2")
            assert "too many pages" in refused.json["error"]
            for each in open_pages:
                await each.__aexit__(None, None, None)
            await eventually(lambda: pages[-1] == 0, "the server has noticed")
            async with listening(server, "view=overview") as page:
                await page.receive("status")
        assert max(pages) == FEEDS_MAX
        assert pages[-1] == 0

    run(story())


def test_health_is_answered_while_all_pages_are_open(run: Run) -> None:
    async def story() -> None:
        served = serving(connection_s_max=0.3)
        async with served as server, listening(server, "view=overview") as page:
            for _ in range(3):
                await page.receive("status")
            assert (await get(server, "/healthz")).status == 200
            await page.receive("status")

    run(story())


@pytest.mark.parametrize(
    "asked",
    [
        "view=device",
        "view=nothing",
        "view=devices&limit=1000",
        "view=devices&stat=lost",
        "view=log&level=x",
        "view=topics&limit=0",
        "view=devices&sort=colour",
        "view=devices&offset=-1",
        "view=log&after=x",
    ],
)
def test_what_cannot_be_looked_at_is_refused(run: Run, asked: str) -> None:
    async def story() -> None:
        async with serving() as server:
            answer = await get(server, f"/api/events?{asked}")
            assert answer.status == 400
            assert answer.json["error"]

    run(story())


def test_a_fault_of_ours_ends_the_stream_with_one_line_in_the_log(
    run: Run, log: Log, capfd: pytest.CaptureFixture[str]
) -> None:
    async def broken(_query: ClientsQuery) -> ClientsFound:
        raise KeyError("no such sensor")

    async def story() -> None:
        async with serving(clients=broken) as server:
            answered = await exchange(server, b"GET /api/events?view=devices HTTP/1.1\r\n\r\n")
            assert answered.startswith(b"HTTP/1.0 200")
            (line,) = log.read()
            assert line.startswith("<3>ERROR tidegate.admin cannot look error=")

    run(story())
    assert "Traceback" not in capfd.readouterr().err


def test_who_goes_from_view_to_view_as_fast_as_can_be_is_never_refused(run: Run) -> None:
    async def story() -> None:
        async with serving() as server:
            for _ in range(3 * FEEDS_MAX):
                async with listening(server, "view=overview") as page:
                    await page.receive("status")
                await asyncio.sleep(0.02)  # the time of a very fast finger

    run(story())
