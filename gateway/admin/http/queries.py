"""What may be asked of /api/clients, /api/topics and the like, and the answer to what may not.

A list is as long as `limit` at most, in the order of its names; `after` takes up where the one
before ended. Unknown names are refused rather than ignored: `?stat=asleep` must not list everyone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.admin.log.logs import LEVELS, Level
from gateway.core.state_records import State

LIMIT_DEFAULT = 100
LIMIT_MAX = 1000  # some 500 kB of JSON, made in 30 ms

# What the page sorts by. The first are those that have waited the longest, or wait for the most.
SORTS = ("id", "heard", "due", "state", "queued")
OFFSET_MAX = 1_000_000
SEARCH_LENGTH_MAX = 100
LIVE_LIMIT_MAX = 200  # rows that are looked at every second

OVERDUE = "overdue"
STATES = (*(state.value for state in State), OVERDUE)


class QueryError(Exception):
    """What cannot be asked, and what can."""


@dataclass(frozen=True, slots=True)
class ClientsQuery:
    """Without anything: all. `client_id` is a whole id, and asks for details. `prefix` and `after`
    are of ids; `search` is found anywhere in one, whatever its case. `offset` leaves out so many.
    """

    client_id: str | None = None
    prefix: str = ""
    state: str | None = None  # of STATES
    after: str = ""
    limit: int = LIMIT_DEFAULT
    search: str = ""
    sort: str = "id"  # of SORTS
    descends: bool = False
    offset: int = 0


@dataclass(frozen=True, slots=True)
class LatestQuery:
    """What was said last on topics, or by sensors, that have `search` in their names."""

    search: str = ""
    limit: int = LIMIT_DEFAULT


@dataclass(frozen=True, slots=True)
class TopicsQuery:
    """`name` is a whole topic name or filter, and asks for all who have to do with it."""

    name: str | None = None
    prefix: str = ""
    after: str = ""
    limit: int = LIMIT_DEFAULT


def clients_query(asked: Mapping[str, str]) -> ClientsQuery:
    """Raises QueryError."""
    known = ("id", "prefix", "state", "after", "limit", "search", "sort", "offset")
    _refuse_unknown(asked, known)
    state = asked.get("state")
    if state is not None and state not in STATES:
        raise QueryError(f"no state {state!r}: it is one of {', '.join(STATES)}")
    sort = asked.get("sort", "id")
    if sort.removeprefix("-") not in SORTS:
        raise QueryError(f"no order {sort!r}: it is one of {', '.join(SORTS)}, or -id and so on")
    return ClientsQuery(
        client_id=asked.get("id"),
        prefix=asked.get("prefix", ""),
        state=state,
        after=asked.get("after", ""),
        limit=_limit(asked),
        search=_search(asked),
        sort=sort.removeprefix("-"),
        descends=sort.startswith("-"),
        offset=_whole(asked, "offset", 0, 0, OFFSET_MAX),
    )


def latest_query(asked: Mapping[str, str]) -> LatestQuery:
    """Raises QueryError."""
    _refuse_unknown(asked, ("search", "limit"))
    return LatestQuery(_search(asked), _limit(asked))


def log_query(asked: Mapping[str, str]) -> tuple[Level, int]:
    """From which level on, and behind which line. Raises QueryError."""
    _refuse_unknown(asked, ("level", "after"))
    level = asked.get("level", "debug")
    if level not in LEVELS:
        raise QueryError(f"no level {level!r}: it is one of {', '.join(LEVELS)}")
    return level, _whole(asked, "after", 0, 0, 10**9)


def topics_query(asked: Mapping[str, str]) -> TopicsQuery:
    """Raises QueryError."""
    _refuse_unknown(asked, ("name", "prefix", "after", "limit"))
    return TopicsQuery(
        name=asked.get("name"),
        prefix=asked.get("prefix", ""),
        after=asked.get("after", ""),
        limit=_limit(asked),
    )


def _refuse_unknown(asked: Mapping[str, str], known: tuple[str, ...]) -> None:
    for name in asked:
        if name not in known:
            raise QueryError(f"{name!r} cannot be asked for, only {', '.join(known)}")


def _search(asked: Mapping[str, str]) -> str:
    return asked.get("search", "")[:SEARCH_LENGTH_MAX]


def _limit(asked: Mapping[str, str]) -> int:
    return _whole(asked, "limit", LIMIT_DEFAULT, 1, LIMIT_MAX)


def _whole(asked: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = asked.get(name, str(default))
    if text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most:
        return int(text)
    raise QueryError(f"{name} is a whole number from {least} to {most}, not {text[:20]!r}")
