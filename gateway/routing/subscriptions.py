"""Who hears what, and the least that must be subscribed at the broker for it.

The covering set is those filters that no other filter covers: with `a/#` wanted by one client, `a/b` of
another needs no subscription of its own. Each is subscribed at the highest QoS of all that it covers, and
each client gets a message at the lower of the message's QoS and its own highest matching filter's.

Limits are kept by the sessions (filters per client, clients per gateway). The memory of recent matches is
emptied when it holds `MATCHES_MAX` topics or when any subscription changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.effects import ClientId
from gateway.routing.topic_tree import TopicTree

MATCHES_MAX = 4096

Matches = list[tuple[ClientId, int]]
Subscribers = dict[ClientId, int]


@dataclass(slots=True)
class Change:
    """How the covering set differs from before: filters to subscribe with their QoS, and to give up."""

    wanted: dict[str, int] = field(default_factory=dict)
    unwanted: list[str] = field(default_factory=list)


class Subscriptions:
    def __init__(self) -> None:
        self._tree: TopicTree[Subscribers] = TopicTree()
        self._matches: dict[str, Matches] = {}
        self.covering: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._tree)

    def matching(self, topic: str) -> Matches:
        """Each client that hears this topic, once, with the highest QoS of its matching filters."""
        matches = self._matches.get(topic)
        if matches is None:
            best: Subscribers = {}
            for _, subscribers in self._tree.above(topic):
                for client_id, qos in subscribers.items():
                    best[client_id] = max(qos, best.get(client_id, 0))
            if len(self._matches) >= MATCHES_MAX:
                self._matches.clear()
            matches = self._matches[topic] = list(best.items())
        return matches

    def add(self, client_id: ClientId, topic_filter: str, qos: int) -> Change:
        self._matches.clear()
        subscribers = self._tree.get(topic_filter)
        if subscribers is None:
            subscribers = {}
            self._tree.put(topic_filter, subscribers)
        subscribers[client_id] = qos
        return self._cover(topic_filter)

    def remove(self, client_id: ClientId, topic_filter: str) -> Change:
        self._matches.clear()
        subscribers = self._tree.get(topic_filter)
        if subscribers is None:
            return Change()
        subscribers.pop(client_id, None)
        if subscribers:
            return Change()
        self._tree.pop(topic_filter)
        return self._uncover(topic_filter)

    def subscribers_of(self, topic_filter: str) -> Subscribers:
        """The clients that asked for exactly this filter."""
        return self._tree.get(topic_filter) or {}

    def cover_of(self, topic_filter: str) -> str | None:
        """The filter of the covering set that brings what `topic_filter` matches."""
        return next((above for above, _ in self._tree.above(topic_filter) if above in self.covering), None)

    # The covering set

    def _cover(self, topic_filter: str) -> Change:
        change = Change()
        above = [key for key, _ in self._tree.above(topic_filter) if key in self.covering]
        if above and above != [topic_filter]:
            for key in above:
                self._raise(key, self._highest(topic_filter), change)
            return change
        self._raise(topic_filter, self._highest_under(topic_filter), change)
        for key, _ in self._tree.under(topic_filter):
            if key != topic_filter and self.covering.pop(key, None) is not None:
                change.unwanted.append(key)
        return change

    def _uncover(self, topic_filter: str) -> Change:
        change = Change()
        if self.covering.pop(topic_filter, None) is None:
            return change
        change.unwanted.append(topic_filter)
        for key, _ in self._tree.under(topic_filter):
            if len(self._tree.above(key)) == 1:
                self._raise(key, self._highest_under(key), change)
        return change

    def _raise(self, topic_filter: str, qos: int, change: Change) -> None:
        before = self.covering.get(topic_filter)
        if before is None or qos > before:
            self.covering[topic_filter] = change.wanted[topic_filter] = qos

    def _highest(self, topic_filter: str) -> int:
        return max(self.subscribers_of(topic_filter).values(), default=0)

    def _highest_under(self, topic_filter: str) -> int:
        return max(self._highest(key) for key, _ in self._tree.under(topic_filter))
