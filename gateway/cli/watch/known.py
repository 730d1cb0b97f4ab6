"""Whether the running gateway knows what is to be watched, and what may have been meant.

The gateway is asked at its own page, if it is there. Nothing depends on the answer: a sensor that
has never been heard may be the very one that is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gateway.admin.clients import CLIENTS_SCHEMA
from gateway.admin.http.queries import LIMIT_MAX
from gateway.admin.topics import TOPICS_SCHEMA
from gateway.cli.asking import NoAnswerError, Place, ask
from gateway.cli.live import printable
from gateway.config import Settings
from gateway.config.spelling import nearest
from gateway.config.topic_filters import covers


def doubt(settings: Settings, wanted: str, *, is_filter: bool) -> str | None:
    """A sentence if nothing that is known has this name, or if what is known matches nearly this
    filter and not this one. Others at the broker have topics that the gateway knows nothing of.
    """
    try:
        clients = _list(settings, "/api/clients", CLIENTS_SCHEMA, "clients", "id")
        topics = _list(settings, "/api/topics", TOPICS_SCHEMA, "topics", "topic")
    except NoAnswerError:
        return None
    if clients is None or topics is None:
        return None
    if is_filter:
        if any(covers(wanted, topic) for topic in topics):
            return None
        what, candidates = "topic of a sensor matches", _beginnings(topics, wanted)
    else:
        if wanted in clients or wanted in topics:
            return None
        what, candidates = "sensor or topic is", [*clients, *topics]
    close = nearest(wanted, candidates)
    if close is None and is_filter:
        return None
    hint = "" if close is None else f"; did you mean {printable(close)!r}?"
    return f"no {what} {printable(wanted)!r} so far{hint}"


def _list(settings: Settings, path: str, schema: str, name: str, key: str) -> list[str] | None:
    """None if that is another gateway, or has more than it tells at once."""
    answer: dict[str, Any] = ask(_place(settings), path, schema, {"limit": LIMIT_MAX})
    if answer.get("gateway") != settings.gateway.name or answer.get("more"):
        return None
    return [str(each[key]) for each in answer[name]]


def _place(settings: Settings) -> Place:
    """On its socket too, if it is on this machine."""
    listen = settings.admin.listen
    is_here = listen is not None and listen.is_loopback
    return Place(listen, settings.socket_places if is_here else (), settings.admin.certificate)


def _beginnings(topics: Iterable[str], wanted: str) -> list[str]:
    """Filters like the one that is wanted that match something: as deep, ending in the same way."""
    levels = wanted.split("/")
    found: dict[str, None] = {}
    for topic in topics:
        parts = topic.split("/")
        if levels[-1] == "#":
            parts = [*parts[: len(levels) - 1], "#"]
        alike = [
            "+" if number < len(levels) and levels[number] == "+" else part
            for number, part in enumerate(parts)
        ]
        found["/".join(alike)] = None
    return list(found)
