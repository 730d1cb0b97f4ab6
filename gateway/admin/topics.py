"""Topics as they are shown: by /api/topics and by `tidegate topics`.

One entry for each name that a client has registered, the configuration has predefined, somebody
has subscribed to (then it may be a filter), or the broker retains a message for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

TOPICS_SCHEMA = "tidegate.topics/1"
CLIENTS_NAMED_MAX = 5  # of each entry in a list; all that there are are counted
CLIENTS_NAMED_OF_ONE_MAX = 1000  # where one topic is asked for


@dataclass(slots=True)
class NamedCounts:
    """Clients and a number that each has with it: so many of them by name, the rest counted."""

    named_max: int
    named: list[tuple[str, int]] = field(default_factory=list)
    count: int = 0

    def add(self, client_id: str, number: int) -> None:
        self.count += 1
        if len(self.named) < self.named_max:
            self.named.append((client_id, number))


@dataclass(slots=True)
class TopicShown:
    """`registered`: who has an id of its own for it, and which. `subscribed`: by whom, with QoS.

    `predefined_id` is for all clients, `predefined` for single ones. `cover` is the filter that we
    have at the broker for its subscribers, with `cover_qos`. `retained_bytes` is None where
    nothing is retained.
    """

    name: str
    registered: NamedCounts
    subscribed: NamedCounts
    predefined: NamedCounts
    predefined_id: int | None = None
    cover: str | None = None
    cover_qos: int | None = None
    retained_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TopicsFound:
    """In the order of their names. `more` further ones match, at least: counting has a bound."""

    topics: Sequence[TopicShown]
    more: int = 0
    more_is_exact: bool = True


def topics_json(gateway: str, found: TopicsFound) -> dict[str, object]:
    return {
        "schema": TOPICS_SCHEMA,
        "gateway": gateway,
        "topics": [topic_json(topic) for topic in found.topics],
        "more": found.more,
        "more_is_exact": found.more_is_exact,
    }


def topic_json(topic: TopicShown) -> dict[str, object]:
    return {
        "topic": topic.name,
        "predefined_id": topic.predefined_id,
        "predefined_for": _named(topic.predefined, "topic_id"),
        "registered_by": _named(topic.registered, "topic_id"),
        "subscribed_by": _named(topic.subscribed, "qos"),
        "upstream_filter": topic.cover,
        "upstream_qos": topic.cover_qos,
        "retained_bytes": topic.retained_bytes,
    }


def _named(clients: NamedCounts, number: str) -> dict[str, object]:
    return {
        "count": clients.count,
        "clients": [{"id": client_id, number: value} for client_id, value in clients.named],
    }
