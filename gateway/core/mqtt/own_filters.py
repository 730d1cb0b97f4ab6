"""What the gateway subscribes to for itself, beside what its clients subscribe to.

Each of these filters is a subscription of its own, with an identifier of its own, so what it alone
brings is passed to no client and is not kept as a retained message for one. A client's filter that
is the same as one of these takes its place at the broker (MQTT 5, 3.8.4); then it brings both what
they need, until the client has left and ours is subscribed again.

A broker without subscription identifiers may send a copy for each subscription (3.3.4): then a
client with a filter that overlaps with one of ours may get a message twice.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from enum import Enum
from zlib import crc32

from gateway.core.topic_trie import TopicTree

# What it alone brings has one of these, which is even (subscriber.py, rule 2).
IDENTIFIER_FIRST = 4
IDENTIFIERS = 1 << 26
OwnFilter = tuple[str, int]  # as the broker has it, and at which QoS


class Concern(Enum):
    """Whom a publication of the broker concerns."""

    CLIENTS = "clients"
    BOTH = "both"
    GATEWAY = "gateway"


class OwnFilters:
    def __init__(self, filters: Sequence[OwnFilter], prefix: str) -> None:
        """`prefix`: what the broker's names of topics have before those of clients."""
        self._prefix = prefix
        self._qos = dict(filters)
        self._tree: TopicTree[int] = TopicTree()
        for topic_filter, _ in filters:
            self._tree.put(topic_filter, _identifier_of(topic_filter))
        self._identifiers = frozenset(identifier for _, identifier in self._tree.all())
        self._beginnings = tuple(
            topic_filter.partition("+")[0].partition("#")[0] for topic_filter in self._qos
        )
        self.missing: dict[str, None] = {}  # to be subscribed

    def opened(self, wanted: Container[str]) -> None:
        """A new connection. `wanted`: by clients."""
        self.missing = {
            topic_filter: None
            for topic_filter in self._qos
            if not self._is_wanted(topic_filter, wanted)
        }

    def given_up(self, topic_filter: str) -> None:
        """The broker is asked to end a subscription of clients."""
        if self._prefix + topic_filter in self._qos:
            self.missing[self._prefix + topic_filter] = None

    def wanted(self, topic_filter: str) -> None:
        """A client's subscription takes the place of ours, if it is the same."""
        self.missing.pop(self._prefix + topic_filter, None)

    def qos_of(self, topic_filter: str) -> int:
        return self._qos[topic_filter]

    def identifier_of(self, topic_filter: str) -> int:
        identifier = self._tree.get(topic_filter)
        assert identifier is not None, "one of ours"
        return identifier

    def concern_of(self, topic: str, identifiers: Sequence[int], wanted: Container[str]) -> Concern:
        """Of a publication with these subscription identifiers."""
        if not topic.startswith(self._beginnings):
            return Concern.CLIENTS
        found = self._tree.above(topic)
        if not found:
            return Concern.CLIENTS
        if not identifiers or any(self._is_wanted(each, wanted) for each, _ in found):
            return Concern.BOTH
        if self._identifiers.isdisjoint(identifiers):
            return Concern.CLIENTS  # a copy; ours comes by itself
        return Concern.GATEWAY if self._identifiers.issuperset(identifiers) else Concern.BOTH

    def _is_wanted(self, topic_filter: str, wanted: Container[str]) -> bool:
        prefix = self._prefix
        return topic_filter.startswith(prefix) and topic_filter.removeprefix(prefix) in wanted


def _identifier_of(topic_filter: str) -> int:
    checksum = crc32(b"own\0" + topic_filter.encode())
    return IDENTIFIER_FIRST + 2 * (checksum % IDENTIFIERS)
