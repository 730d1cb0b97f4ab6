"""What the gateway subscribes to for itself, beside what its clients subscribe to.

Each of these filters is a subscription of its own. All have the identifier that no client's filter
has, so what they alone bring is passed to no client, and is not kept as a retained message for one.
A client's filter that is the same as one of these takes its place at the broker (MQTT 5, 3.8.4);
then it brings both what they need, until the client has left and ours is subscribed again.

A broker without subscription identifiers may send a copy for each subscription (3.3.4): then a
client with a filter that overlaps with one of ours may get a message twice.

Some of them are only needed for a while (`listen`, `leave`): such a filter is known here until the
broker has given it up, because until then it may bring something.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from enum import Enum

from gateway.core.topic_trie import TopicTree

# Of all of these subscriptions: even (subscriber.py, rule 2), and above those of clients' filters.
OWN_IDENTIFIER = 268_435_454
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
        self._tree: TopicTree[None] = TopicTree()
        for topic_filter, _ in filters:
            self._tree.put(topic_filter, None)
        self._index()
        self.missing: dict[str, None] = {}  # to be subscribed
        self.leaving: dict[str, None] = {}  # to be given up
        self._asked_to_leave: set[str] = set()  # the broker has not answered yet
        self._granted: set[str] = set()  # by the broker, in this connection

    def __contains__(self, topic_filter: str) -> bool:
        return topic_filter in self._qos

    def _index(self) -> None:
        self._beginnings = tuple(
            topic_filter.partition("+")[0].partition("#")[0] for topic_filter, _ in self._tree.all()
        )

    def opened(self, wanted: Container[str], *, is_resumed: bool = True) -> None:
        """A new connection. `wanted`: by clients; `is_resumed`: the broker has what it had."""
        self._granted = {each for each in self._qos if self._is_wanted(each, wanted)}
        self.missing = {
            topic_filter: None for topic_filter in self._qos if topic_filter not in self._granted
        }
        self.leaving |= dict.fromkeys(self._asked_to_leave - self._qos.keys())
        self._asked_to_leave.clear()
        for topic_filter in [] if is_resumed else list(self.leaving):
            self.given_up_for_good(topic_filter)

    def listen(self, topic_filter: str, qos: int, wanted: Container[str]) -> None:
        """One more, from now on; `wanted`: by clients."""
        self.leaving.pop(topic_filter, None)
        self._qos[topic_filter] = qos
        self._tree.put(topic_filter, None)
        self._index()
        if self._is_wanted(topic_filter, wanted):
            self._granted.add(topic_filter)
        else:
            self.missing[topic_filter] = None

    def leave(self, topic_filter: str, wanted: Container[str]) -> None:
        """One that is not needed any more; `wanted`: by clients."""
        self._qos.pop(topic_filter, None)
        self._granted.discard(topic_filter)
        if topic_filter in self.missing or self._is_wanted(topic_filter, wanted):
            self.missing.pop(topic_filter, None)
            self.given_up_for_good(topic_filter)
        else:
            self.leaving[topic_filter] = None

    def asked_to_leave(self, topic_filter: str) -> None:
        """The broker is asked to end it."""
        del self.leaving[topic_filter]
        self._asked_to_leave.add(topic_filter)

    def given_up_for_good(self, topic_filter: str) -> None:
        """The broker does not have it any more, or never had."""
        self.leaving.pop(topic_filter, None)
        self._asked_to_leave.discard(topic_filter)
        if topic_filter not in self._qos and topic_filter in self._tree:
            self._tree.pop(topic_filter)
            self._index()

    def granted(self, topic_filter: str) -> None:
        if topic_filter in self._qos:
            self._granted.add(topic_filter)

    def is_granted(self, topic_filter: str) -> bool:
        """By the broker, in this connection."""
        return topic_filter in self._granted

    def given_up(self, topic_filter: str) -> None:
        """The broker is asked to end a subscription of clients."""
        if self._prefix + topic_filter in self._qos:
            self.missing[self._prefix + topic_filter] = None

    def wanted(self, topic_filter: str) -> None:
        """A client's subscription takes the place of ours, if it is the same."""
        self.missing.pop(self._prefix + topic_filter, None)
        if self._prefix + topic_filter in self.leaving:
            self.given_up_for_good(self._prefix + topic_filter)

    def qos_of(self, topic_filter: str) -> int:
        return self._qos[topic_filter]

    def concern_of(self, topic: str, identifiers: Sequence[int], wanted: Container[str]) -> Concern:
        """Of a publication with these subscription identifiers."""
        if not topic.startswith(self._beginnings):
            return Concern.CLIENTS
        found = self._tree.above(topic)
        if not found:
            return Concern.CLIENTS
        if not identifiers or any(self._is_wanted(each, wanted) for each, _ in found):
            return Concern.BOTH
        if OWN_IDENTIFIER not in identifiers:
            return Concern.CLIENTS  # a copy; ours comes by itself
        is_ours_alone = all(each == OWN_IDENTIFIER for each in identifiers)
        return Concern.GATEWAY if is_ours_alone else Concern.BOTH

    def _is_wanted(self, topic_filter: str, wanted: Container[str]) -> bool:
        prefix = self._prefix
        return topic_filter.startswith(prefix) and topic_filter.removeprefix(prefix) in wanted
