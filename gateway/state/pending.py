"""Changes on their way to the disk, and what waits for them: no I/O, no clock.

Rule 1: of changes with the same key only the last is written. A row that came and went costs a
        DELETE that finds nothing, and that writes nothing.
Rule 2: SessionGone takes back what waits of its client; rows that come after it are of the next
        session.
Rule 3: an effect waits for every change that came before it, so also for the batch under way.

Limit: one entry for each key, so what the core holds bounds it: its sessions with their topics,
subscriptions and outboxes, its retained messages, 65,535 packet ids. Deletions of keys that are no
more are bounded by `GONE_MAX`: a store that has failed for so long forgets which rows of ended
subscriptions, messages and retained topics it should delete, the oldest first, and they come back
with the next restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf

from gateway.effects import Effect, Urgency
from gateway.saved import (
    Change,
    ClientId,
    FilterGone,
    MessageGone,
    PacketGone,
    PacketsGone,
    RetainedGone,
    SavedFilter,
    SavedMessage,
    SavedPacket,
    SavedRetained,
    SavedSession,
    SavedSubscription,
    SavedTopic,
    SessionGone,
    SubscriptionGone,
)

GONE_MAX = 200_000

Key = tuple[Hashable, ...]


@dataclass(slots=True)
class Batch:
    """What one transaction writes, and what waits for it."""

    changes: list[Change]
    waiting: list[Effect] = field(default_factory=list)


def key_of(change: Change) -> Key:
    """What a change is about; the client comes second where there is one."""
    match change:
        case SavedSession() | SessionGone():
            return "session", change.client_id
        case SavedTopic():
            return "topic", change.client_id, change.topic_id
        case SavedSubscription() | SubscriptionGone():
            return "subscription", change.client_id, change.topic_filter
        case SavedMessage() | MessageGone():
            return "message", change.client_id, change.position
        case SavedRetained() | RetainedGone():
            return "retained", None, change.topic
        case SavedPacket() | PacketGone():
            return "packet", None, change.packet_id
        case PacketsGone():
            return "packets", None
        case SavedFilter() | FilterGone():
            return "filter", None, change.topic_filter


class Pending:
    def __init__(self) -> None:
        self.due_at = inf  # when to write
        self._changes: dict[Key, Change] = {}
        self._of_client: dict[ClientId, set[Key]] = {}
        self._ended: dict[ClientId, None] = {}  # SessionGone, before all rows of the client
        self._packets_gone = False
        self._waiting: deque[Effect] = deque()
        self._gone = 0  # how many of the changes are deletions

    def __len__(self) -> int:
        return len(self._changes) + len(self._ended)

    @property
    def is_any(self) -> bool:
        return bool(self._changes or self._ended or self._packets_gone or self._waiting)

    # From the core

    def add(self, change: Change, now: float) -> None:
        self.due_at = min(self.due_at, now + Urgency.LATER.value)
        self._put(change)

    def wait(self, effects: list[Effect], urgency: Urgency, now: float) -> None:
        """Hand these out when all that came before is durable."""
        self.due_at = min(self.due_at, now + urgency.value)
        self._waiting += effects

    # From the committer

    def take(self) -> Batch | None:
        """All of it; None if there is nothing."""
        if not self.is_any:
            return None
        changes: list[Change] = [SessionGone(client_id) for client_id in self._ended]
        if self._packets_gone:
            changes.append(PacketsGone())
        changes += self._changes.values()
        batch = Batch(changes, list(self._waiting))
        self._changes.clear()
        self._of_client.clear()
        self._ended.clear()
        self._waiting.clear()
        self._packets_gone = False
        self._gone = 0
        self.due_at = inf
        return batch

    def failed(self, batch: Batch, retry_at: float) -> None:
        """It was not written: its changes go under what came meanwhile."""
        newer, self._changes = self._changes, {}
        newer_ended, packets_gone = list(self._ended), self._packets_gone
        self._ended, self._packets_gone, self._of_client, self._gone = {}, False, {}, 0
        for change in batch.changes:
            self._put(change)
        for client_id in newer_ended:
            self._put(SessionGone(client_id))
        if packets_gone:
            self._put(PacketsGone())
        for change in newer.values():
            self._put(change)
        self._waiting.extendleft(reversed(batch.waiting))
        self.due_at = retry_at

    # Helpers

    def _put(self, change: Change) -> None:
        if isinstance(change, SessionGone):
            for key in self._of_client.pop(change.client_id, ()):
                self._take_out(key)
            self._ended[change.client_id] = None
            return
        if isinstance(change, PacketsGone):
            for key in [key for key in self._changes if key[0] == "packet"]:
                self._take_out(key)
            self._packets_gone = True
            return
        key = key_of(change)
        self._take_out(key)  # so that the newest is last
        self._changes[key] = change
        self._gone += _is_gone(change)
        client_id = key[1]
        if client_id is not None:
            self._of_client.setdefault(ClientId(str(client_id)), set()).add(key)
        if self._gone > GONE_MAX:
            self._forget_oldest_deletion()

    def _take_out(self, key: Key) -> None:
        former = self._changes.pop(key, None)
        if former is not None:
            self._gone -= _is_gone(former)

    def _forget_oldest_deletion(self) -> None:
        oldest = next(key for key, change in self._changes.items() if _is_gone(change))
        self._take_out(oldest)


def _is_gone(change: Change) -> bool:
    return isinstance(
        change, SubscriptionGone | MessageGone | RetainedGone | PacketGone | FilterGone
    )
