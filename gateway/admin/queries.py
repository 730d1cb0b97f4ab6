"""What may be asked of /api/clients and /api/topics, and the answer to what may not.

A list is as long as `limit` at most, in the order of its names; `after` takes up where the one
before ended. Unknown names are refused rather than ignored: `?stat=asleep` must not list everyone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.effects import State

LIMIT_DEFAULT = 100
LIMIT_MAX = 1000  # some 500 kB of JSON, made in 30 ms

OVERDUE = "overdue"
STATES = (*(state.value for state in State), OVERDUE)


class QueryError(Exception):
    """What cannot be asked, and what can."""


@dataclass(frozen=True, slots=True)
class ClientsQuery:
    """Without anything: all. `client_id` is a whole id, and asks for details."""

    client_id: str | None = None
    prefix: str = ""
    state: str | None = None  # of STATES
    after: str = ""
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
    _refuse_unknown(asked, ("id", "prefix", "state", "after", "limit"))
    state = asked.get("state")
    if state is not None and state not in STATES:
        raise QueryError(f"no state {state!r}: it is one of {', '.join(STATES)}")
    return ClientsQuery(
        asked.get("id"), asked.get("prefix", ""), state, asked.get("after", ""), _limit(asked)
    )


def topics_query(asked: Mapping[str, str]) -> TopicsQuery:
    """Raises QueryError."""
    _refuse_unknown(asked, ("name", "prefix", "after", "limit"))
    return TopicsQuery(
        asked.get("name"), asked.get("prefix", ""), asked.get("after", ""), _limit(asked)
    )


def _refuse_unknown(asked: Mapping[str, str], known: tuple[str, ...]) -> None:
    for name in asked:
        if name not in known:
            raise QueryError(f"{name!r} cannot be asked for, only {', '.join(known)}")


def _limit(asked: Mapping[str, str]) -> int:
    text = asked.get("limit", str(LIMIT_DEFAULT))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= LIMIT_MAX):
        raise QueryError(f"limit is a whole number from 1 to {LIMIT_MAX}, not {text[:20]!r}")
    return int(text)
