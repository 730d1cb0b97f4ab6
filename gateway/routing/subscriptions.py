"""Who hears what, and the least that must be subscribed at the broker for it.

The covering set is those filters that no other filter covers: with `a/#` wanted by one client,
`a/b` of another needs no subscription of its own. Each is subscribed at the highest QoS of all
that it covers, and each client gets a message at the lower of the message's QoS and its own
highest matching filter's.

Limits are kept by the sessions (filters per client, clients per gateway). The memory of recent
matches is emptied when it holds `MATCHES_MAX` topics or when any subscription changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gateway.effects import ClientId
from gateway.routing.topic_tree import TopicTree
from gateway.saved import SavedSubscription

MATCHES_MAX = 4096

Matches = list[tuple[ClientId, int]]
Subscribers = dict[ClientId, int]


class _Filter:
    """One filter: who hears by it, and how many asked for it and wait for the broker's word.

    Most have one hearer: the dictionary is made for the second one.
    """

    __slots__ = ("_hearers", "_only", "asked", "qos")

    def __init__(self) -> None:
        self.asked = 0
        self.qos = 0  # the highest ever asked for; it does not fall while the filter lives
        self._only: tuple[ClientId, int] | None = None
        self._hearers: Subscribers | None = None

    @property
    def is_unused(self) -> bool:
        return self._only is None and not self._hearers and not self.asked

    def hearers(self) -> Matches:
        """Who hears by it, and with which QoS."""
        if self._hearers is not None:
            return list(self._hearers.items())
        return [] if self._only is None else [self._only]

    def put(self, client_id: ClientId, qos: int) -> None:
        if self._hearers is not None:
            self._hearers[client_id] = qos
        elif self._only is None or self._only[0] == client_id:
            self._only = (client_id, qos)
        else:
            self._hearers = {self._only[0]: self._only[1], client_id: qos}
            self._only = None

    def pop(self, client_id: ClientId) -> bool:
        """Whether it heard by it until now."""
        if self._hearers is not None:
            return self._hearers.pop(client_id, None) is not None
        if self._only is None or self._only[0] != client_id:
            return False
        self._only = None
        return True


@dataclass(slots=True)
class Change:
    """How the covering set differs from before: filters to subscribe, and to give up."""

    wanted: dict[str, int] = field(default_factory=dict)
    unwanted: list[str] = field(default_factory=list)


class Subscriptions:
    def __init__(self) -> None:
        self._tree: TopicTree[_Filter] = TopicTree()
        self._matches: dict[str, Matches] = {}
        self.covering: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._tree)

    def __iter__(self) -> Iterator[str]:
        """Every filter that somebody hears by, or has asked for."""
        return iter(self._tree)

    def matching(self, topic: str) -> Matches:
        """Each client that hears this topic, once, with the highest QoS of its matching filters."""
        matches = self._matches.get(topic)
        if matches is None:
            best: Subscribers = {}
            for _, entry in self._tree.above(topic):
                for client_id, qos in entry.hearers():
                    best[client_id] = max(qos, best.get(client_id, 0))
            if len(self._matches) >= MATCHES_MAX:
                self._matches.clear()
            matches = self._matches[topic] = list(best.items())
        return matches

    def subscribers_of(self, topic_filter: str) -> list[ClientId]:
        """The clients that hear by exactly this filter."""
        entry = self._tree.get(topic_filter)
        return [] if entry is None else [client_id for client_id, _ in entry.hearers()]

    def heard_by(self, topic_filter: str) -> Mapping[ClientId, int]:
        """The same, with the QoS of each."""
        entry = self._tree.get(topic_filter)
        return {} if entry is None else dict(entry.hearers())

    def cover_of(self, topic_filter: str) -> str | None:
        """The filter of the covering set that brings what `topic_filter` matches."""
        above = self._tree.above(topic_filter)
        return next((key for key, _ in above if key in self.covering), None)

    # A subscription is asked for, then joined or withdrawn, at last left

    def ask(self, topic_filter: str, qos: int) -> Change:
        """Someone wants to hear by this filter; nobody does yet."""
        entry = self._tree.get(topic_filter)
        if entry is None:
            entry = _Filter()
            self._tree.put(topic_filter, entry)
        entry.asked += 1
        entry.qos = max(entry.qos, qos)
        return self._cover(topic_filter, entry)

    def join(self, client_id: ClientId, topic_filter: str, qos: int) -> None:
        """One that asked hears from now on."""
        entry = self._tree.get(topic_filter)
        assert entry is not None, "asked for before"
        entry.asked -= 1
        entry.put(client_id, qos)
        self._matches.clear()

    def withdraw(self, topic_filter: str) -> Change:
        """One that asked will not hear after all."""
        entry = self._tree.get(topic_filter)
        assert entry is not None, "asked for before"
        entry.asked -= 1
        return self._drop_unused(topic_filter, entry)

    def leave(self, client_id: ClientId, topic_filter: str) -> Change:
        entry = self._tree.get(topic_filter)
        if entry is None or not entry.pop(client_id):
            return Change()
        self._matches.clear()
        return self._drop_unused(topic_filter, entry)

    def restore(self, saved: Iterable[SavedSubscription]) -> None:
        """Those of a former life hear; nobody has asked yet. The covering set is made once."""
        for row in saved:
            entry = self._tree.get(row.topic_filter)
            if entry is None:
                entry = _Filter()
                self._tree.put(row.topic_filter, entry)
            entry.put(row.client_id, row.qos)
            entry.qos = max(entry.qos, row.qos)
        for topic_filter in self._tree:
            if len(self._tree.above(topic_filter)) == 1:
                self.covering[topic_filter] = self._highest_under(topic_filter)

    # The covering set

    def _cover(self, topic_filter: str, entry: _Filter) -> Change:
        change = Change()
        above = [key for key, _ in self._tree.above(topic_filter) if key in self.covering]
        if above and above != [topic_filter]:
            for key in above:
                self._raise(key, entry.qos, change)
            return change
        self._raise(topic_filter, self._highest_under(topic_filter), change)
        for key, _ in self._tree.under(topic_filter):
            if key != topic_filter and self.covering.pop(key, None) is not None:
                change.unwanted.append(key)
        return change

    def _drop_unused(self, topic_filter: str, entry: _Filter) -> Change:
        change = Change()
        if not entry.is_unused:
            return change
        self._tree.pop(topic_filter)
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

    def _highest_under(self, topic_filter: str) -> int:
        return max(entry.qos for _, entry in self._tree.under(topic_filter))
