"""Who hears what, and the least that must be subscribed at the broker for it.

The covering set is those filters that no other filter covers: with `a/#` wanted by one client,
`a/b` of another needs no subscription of its own. Each is subscribed at the highest QoS of all
that it covers, and each client gets a message at the lower of the message's QoS and its own
highest matching filter's.

Limits are kept by the sessions (filters per client, clients per gateway). The memory of recent
matches is emptied when it holds `MATCHES_MAX` topics or when any subscription changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.core.session.qos_table import QosTable
from gateway.core.state_records import ClientId, SubscriptionRecord
from gateway.core.topic_trie import TopicTree

MATCHES_MAX = 4096

Matches = list[tuple[ClientId, int]]
Subscribers = dict[ClientId, int]


class _Filter(QosTable):
    """One filter: who hears by it, and how many asked for it and wait for the broker's word."""

    __slots__ = ("asked", "cover_qos", "qos")

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.qos = 0  # the highest ever asked for; it does not fall while the filter lives
        self.cover_qos: int | None = None  # at which it is in the covering set, if it is

    @property
    def is_unused(self) -> bool:
        return not self and not self.asked


@dataclass(slots=True)
class SubscriptionChange:
    """How the covering set differs from before: filters to subscribe, and to give up."""

    wanted: dict[str, int] = field(default_factory=dict)
    unwanted: list[str] = field(default_factory=list)


class Subscriptions:
    def __init__(self) -> None:
        self._tree: TopicTree[_Filter] = TopicTree()
        self._matches: dict[str, Matches] = {}
        self.covering_count = 0

    def __len__(self) -> int:
        return len(self._tree)

    def __iter__(self) -> Iterator[str]:
        """Every filter that somebody hears by, or has asked for."""
        return iter(self._tree)

    @property
    def covering(self) -> dict[str, int]:
        """The covering set, with the QoS of each. All filters are looked at for it."""
        return {
            topic_filter: entry.cover_qos
            for topic_filter, entry in self._tree.all()
            if entry.cover_qos is not None
        }

    def matching(self, topic: str) -> Matches:
        """Each client that hears this topic, once, with the highest QoS of its matching filters."""
        matches = self._matches.get(topic)
        if matches is None:
            if len(self._matches) >= MATCHES_MAX:
                self._matches.clear()
            matches = self._matches[topic] = _highest(self._tree.above(topic))
        return matches

    def filters_over(self, topic: str) -> list[str]:
        """All that match it."""
        return [topic_filter for topic_filter, _ in self._tree.above(topic)]

    def subscribers_of(self, topic_filter: str) -> list[ClientId]:
        """The clients that hear by exactly this filter."""
        entry = self._tree.get(topic_filter)
        return [] if entry is None else [client_id for client_id, _ in entry.items()]

    def heard_by(self, topic_filter: str) -> Mapping[ClientId, int]:
        """The same, with the QoS of each."""
        entry = self._tree.get(topic_filter)
        return {} if entry is None else dict(entry.items())

    def cover_of(self, topic_filter: str) -> str | None:
        """The filter of the covering set that brings what `topic_filter` matches."""
        above = self._tree.above(topic_filter)
        return next((key for key, entry in above if entry.cover_qos is not None), None)

    def cover_qos(self, topic_filter: str) -> int | None:
        """At which a filter is in the covering set; None where it is not."""
        entry = self._tree.get(topic_filter)
        return None if entry is None else entry.cover_qos

    # A subscription is asked for, then joined or withdrawn, at last left

    def ask(self, topic_filter: str, qos: int) -> SubscriptionChange:
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

    def withdraw(self, topic_filter: str) -> SubscriptionChange:
        """One that asked will not hear after all."""
        entry = self._tree.get(topic_filter)
        assert entry is not None, "asked for before"
        entry.asked -= 1
        return self._drop_unused(topic_filter, entry)

    def leave(self, client_id: ClientId, topic_filter: str) -> SubscriptionChange:
        entry = self._tree.get(topic_filter)
        if entry is None or not entry.pop(client_id):
            return SubscriptionChange()
        self._matches.clear()
        return self._drop_unused(topic_filter, entry)

    def rename(self, before: ClientId, after: ClientId, filters: Iterable[str]) -> None:
        """Who hears by these goes by another name."""
        for topic_filter in filters:
            entry = self._tree.get(topic_filter)
            assert entry is not None, "it hears by this filter"
            qos = dict(entry.items())[before]
            entry.pop(before)
            entry.put(after, qos)
        self._matches.clear()

    def restore(self, saved: Iterable[SubscriptionRecord]) -> None:
        """Those of a previous run; the broker is asked later. The covering set is made once."""
        for row in saved:
            entry = self._tree.get(row.topic_filter)
            if entry is None:
                entry = _Filter()
                self._tree.put(row.topic_filter, entry)
            entry.put(row.client_id, row.qos)
            entry.qos = max(entry.qos, row.qos)
        for topic_filter, entry in self._tree.all():
            if len(self._tree.above(topic_filter)) == 1:
                self._raise(
                    topic_filter, entry, self._highest_under(topic_filter), SubscriptionChange()
                )

    # The covering set

    def _cover(self, topic_filter: str, entry: _Filter) -> SubscriptionChange:
        change = SubscriptionChange()
        above = self._tree.above(topic_filter)
        covers = [(key, each) for key, each in above if each.cover_qos is not None]
        if covers and covers != [(topic_filter, entry)]:
            for key, cover in covers:
                self._raise(key, cover, entry.qos, change)
            return change
        self._raise(topic_filter, entry, self._highest_under(topic_filter), change)
        for key, narrower in self._tree.under(topic_filter):
            if key != topic_filter:
                self._uncover(key, narrower, change)
        return change

    def _drop_unused(self, topic_filter: str, entry: _Filter) -> SubscriptionChange:
        change = SubscriptionChange()
        if not entry.is_unused:
            return change
        self._tree.pop(topic_filter)
        if not self._uncover(topic_filter, entry, change):
            return change
        for key, narrower in self._tree.under(topic_filter):
            if len(self._tree.above(key)) == 1:
                self._raise(key, narrower, self._highest_under(key), change)
        return change

    def _raise(
        self, topic_filter: str, entry: _Filter, qos: int, change: SubscriptionChange
    ) -> None:
        """To this QoS at least; it may be new in the covering set."""
        if entry.cover_qos is None:
            self.covering_count += 1
        elif qos <= entry.cover_qos:
            return
        entry.cover_qos = change.wanted[topic_filter] = qos

    def _uncover(self, topic_filter: str, entry: _Filter, change: SubscriptionChange) -> bool:
        """Whether it was in the covering set until now."""
        if entry.cover_qos is None:
            return False
        entry.cover_qos = None
        self.covering_count -= 1
        change.unwanted.append(topic_filter)
        return True

    def _highest_under(self, topic_filter: str) -> int:
        return max(entry.qos for _, entry in self._tree.under(topic_filter))


def _highest(found: Sequence[tuple[str, _Filter]]) -> Matches:
    """Each client of these filters once, with its highest QoS."""
    if len(found) == 1:  # mostly
        return found[0][1].items()
    best: Subscribers = {}
    for _, entry in found:
        for client_id, qos in entry.items():
            best[client_id] = max(qos, best.get(client_id, 0))
    return list(best.items())
