"""Topic ids of sessions that are over: a later session of the same client numbers behind them, and
gives a name that it registers again the id that it had.

A clean session ends with its connection, and what its client sent may come after that: a delayed
PUBLISH under an old id must not be another topic's. And a client that connects again and again with
the same names keeps the same small ids.

Limit: `NAMES_MAX` topic ids of clients that have no session now; then those of the client whose
session ended first are forgotten, and its next session numbers as one of a new client.
"""

from __future__ import annotations

from gateway.core.session.topic_registry import FormerIds, TopicRegistry
from gateway.core.state_records import ClientId

NAMES_MAX = 10_000  # some 2 MB


class FormerTopics:
    def __init__(self) -> None:
        self._by_client: dict[ClientId, FormerIds] = {}
        self._names = 0

    def note(self, client_id: ClientId, topics: TopicRegistry) -> None:
        """A session of the client is over, or another one begins beside it."""
        self.take(client_id)
        former = topics.former_ids()
        if former is None:
            return
        self._by_client[client_id] = former
        self._names += len(former.ids)
        while self._names > NAMES_MAX:
            self.take(next(iter(self._by_client)))

    def take(self, client_id: ClientId) -> FormerIds | None:
        """For the session that begins; None where nothing is known of a former one."""
        former = self._by_client.pop(client_id, None)
        if former is not None:
            self._names -= len(former.ids)
        return former
