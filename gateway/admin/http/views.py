"""What the page shows, view by view: each a question that is asked again, and answers with what is
different from its last answer.

Every view brings the state of the whole gateway (`status`) with it, which the page has in its head;
that is counted once for all pages within STATUS_S.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from gateway.admin.clients import AGES, client_json, clients_json
from gateway.admin.http import answers
from gateway.admin.http.queries import (
    LIVE_LIMIT_MAX,
    ClientsQuery,
    LatestQuery,
    QueryError,
    clients_query,
    latest_query,
    log_query,
)
from gateway.admin.http.sources import Sources
from gateway.admin.log.tail import log_json
from gateway.presence.latest import Series, series_json

STATUS_S = 0.9
VALUES_OF_ROW_MAX = 3  # shown of a sensor in a list
SHOWN_REFUSED_MAX = 20

Events = list[tuple[str, Mapping[str, Any]]]


class Statuses:
    """The gateway as a whole, counted at most once in STATUS_S however many look."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._body: dict[str, Any] = {}
        self._until = 0.0

    def body(self) -> dict[str, Any]:
        sources = self._sources
        if sources.now() >= self._until or not self._body:
            self._body = answers.status(
                sources.name, sources.version, sources.numbers(), sources.news
            )
            self._body["time"] = round(time.time(), 1)
            self._until = sources.now() + STATUS_S
        return self._body


class View(ABC):
    def __init__(self, sources: Sources, statuses: Statuses) -> None:
        self._sources = sources
        self._statuses = statuses
        self._status: dict[str, Any] = {}

    async def look(self) -> Events:
        status = self._statuses.body()
        events: Events = [] if status is self._status else [("status", status)]
        self._status = status
        return events + await self._own()

    @abstractmethod
    async def _own(self) -> Events: ...


class Configuration(View):
    async def _own(self) -> Events:
        return []


class WholeView(View):
    """An answer that is sent whole whenever it is another one."""

    _last: Mapping[str, Any] | None = None
    name = ""

    async def _own(self) -> Events:
        body = await self._body()
        if body == self._last:
            return []
        self._last = body
        return [(self.name, body)]

    @abstractmethod
    async def _body(self) -> Mapping[str, Any]: ...


class Overview(WholeView):
    name = "refused"

    _seen: object = None
    _shown: Mapping[str, Any] | None = None

    async def _body(self) -> Mapping[str, Any]:
        """The same object as before if nothing was refused since: the clocks differ by a little."""
        refusals = self._sources.news.refusals
        seen = None if refusals is None else [(each.last_at, each.count) for each in refusals]
        if self._shown is None or seen != self._seen:
            self._seen, self._shown = seen, refused_body(self._sources, SHOWN_REFUSED_MAX)
        return self._shown


class Buffer(WholeView):
    name = "buffer"

    async def _body(self) -> Mapping[str, Any]:
        sources = self._sources
        return answers.buffer(sources.name, sources.numbers(), sources.news)


class Topics(WholeView):
    name = "latest"

    def __init__(self, sources: Sources, statuses: Statuses, query: LatestQuery) -> None:
        super().__init__(sources, statuses)
        self._query = query

    async def _body(self) -> Mapping[str, Any]:
        return latest_json(self._sources, self._query)


class Device(WholeView):
    name = "client"

    def __init__(self, sources: Sources, statuses: Statuses, query: ClientsQuery) -> None:
        super().__init__(sources, statuses)
        self._query = query
        self._without_ages: object = None
        self._shown: Mapping[str, Any] = {}

    async def _body(self) -> Mapping[str, Any]:
        """The same object as before if nothing but ages is different."""
        sources = self._sources
        found = await sources.clients(self._query)
        unix_s = time.time()
        body = clients_json(sources.name, found, unix_s)
        series = sources.latest.of(self._query.client_id or "")
        clients: Any = body["clients"]
        latest = series_json(series, sources.now(), unix_s)
        without_ages = ([_without_ages(each) for each in clients], latest)
        if without_ages != self._without_ages:
            self._without_ages = without_ages
            self._shown = {
                "id": self._query.client_id,
                "client": clients[0] if clients else None,
                "latest": latest,
            }
        return self._shown


class Devices(View):
    """A part of the list: its order when that is another one, and the rows that are."""

    def __init__(self, sources: Sources, statuses: Statuses, query: ClientsQuery) -> None:
        super().__init__(sources, statuses)
        self._query = query
        self._rows: dict[str, dict[str, Any]] = {}
        self._order: list[str] | None = None
        self._total = -1

    async def _own(self) -> Events:
        found = await self._sources.clients(self._query)
        unix_s = time.time()
        rows = {
            each.client_id: client_json(each, unix_s) | self._values(each.client_id)
            for each in found.clients
        }
        bare = {client_id: _without_ages(row) for client_id, row in rows.items()}
        changed = {one: row for one, row in bare.items() if self._rows.get(one) != row}
        order = list(bare)
        if not changed and order == self._order and found.total == self._total:
            return []
        self._rows, self._order, self._total = bare, order, found.total
        body = {"order": order, "rows": changed, "total": found.total, "more": found.more}
        return [("clients", body)]

    def _values(self, client_id: str) -> dict[str, object]:
        return {"values": row_values(self._sources.latest.of(client_id), self._sources.now())}


class Log(View):
    def __init__(self, sources: Sources, statuses: Statuses, asked: Mapping[str, str]) -> None:
        super().__init__(sources, statuses)
        self._level, self._after = log_query(asked)
        self._is_first = True

    async def _own(self) -> Events:
        tail = self._sources.log
        lines = tail.lines(self._level, self._after)
        self._after = tail.last
        if not lines and not self._is_first:
            return []
        self._is_first = False
        return [("log", log_json(self._sources.name, tail, lines))]


def view_of(asked: Mapping[str, str], sources: Sources, statuses: Statuses) -> View:
    """Raises QueryError."""
    rest = {name: value for name, value in asked.items() if name != "view"}
    match asked.get("view", "overview"):
        case "overview":
            return Overview(sources, statuses)
        case "configuration":
            return Configuration(sources, statuses)
        case "buffer":
            return Buffer(sources, statuses)
        case "topics":
            return Topics(sources, statuses, latest_query(rest))
        case "devices":
            return Devices(sources, statuses, _live(clients_query(rest)))
        case "device" if "id" in rest:
            return Device(sources, statuses, clients_query(rest))
        case "log":
            return Log(sources, statuses, rest)
        case other:
            raise QueryError(f"no view {other[:20]!r}, or one that needs an id")


def _live(query: ClientsQuery) -> ClientsQuery:
    if query.limit > LIVE_LIMIT_MAX:
        raise QueryError(f"limit is at most {LIVE_LIMIT_MAX} for live updates")
    return query


def latest_json(sources: Sources, query: LatestQuery) -> dict[str, Any]:
    """Also what /api/latest answers."""
    series, total = sources.latest.found(query.search, query.limit)
    return {
        "schema": "tidegate.latest/1",
        "gateway": sources.name,
        "total": total,
        "latest": series_json(series, sources.now(), time.time()),
    }


def refused_body(sources: Sources, shown_max: int | None = None) -> dict[str, Any]:
    """Also what /api/refused answers."""
    return answers.refused(sources.name, sources.news, sources.now(), time.time(), shown_max)


def row_values(series: list[Series], now: float) -> list[Any]:
    """A few values of the topic on which it said something last."""
    if not series:
        return []
    (newest,) = series_json(series[:1], now, 0.0)
    values: Any = newest["values"]
    return list(values[:VALUES_OF_ROW_MAX])


def _without_ages(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in AGES}
