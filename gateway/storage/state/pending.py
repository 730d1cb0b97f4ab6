"""What is to be saved and has not been, and what waits for it. Pure: no I/O, no clock.

A row is here once, as it was said last: a later one takes the place of an earlier, and what is
said and taken back before it was written is never written. After that no order is left among the
changes but this: what is gone goes before what is there. An effect waits for all that was added
before it, also for what is being written at the time.

Bounded by the core's own tables: one entry at most for each row that the core has and for each
that the disk has, so by `limits.*` however long the disk fails. Effects that wait are bounded by
what the core has under way: an exchange for each client, the broker's Receive Maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from operator import attrgetter
from typing import Any

from gateway.core.effects import Durable
from gateway.core.state_records import (
    AsideDeleted,
    AsideRecord,
    Change,
    ClientId,
    DueWillDeleted,
    DueWillRecord,
    FilterDeleted,
    FilterRecord,
    MessageDeleted,
    MessageRecord,
    PacketDeleted,
    PacketRecord,
    PacketsDeleted,
    PermitDeleted,
    PermitRecord,
    ProtectionDeleted,
    ProtectionRecord,
    RetainedDeleted,
    RetainedRecord,
    RunTimeRecord,
    SessionDeleted,
    SessionRecord,
    StateRecords,
    SubscriptionDeleted,
    SubscriptionRecord,
    TopicRecord,
    WaitingDeleted,
    WaitingRecord,
)

# Of which row a change is: its kind and its name there, the same for a row and for its "gone".
Key = tuple[type, object]
# Whose row it is: a client's, or the gateway's own.
Owner = ClientId | None

# How long what is saved may wait for company: what somebody waits for, and what nobody does.
WAITED_FOR_S = 0.002
LATER_S = 0.25


@dataclass(slots=True)
class Batch:
    """What is written at once, and the effects that may follow it. The sets: what may be on disk
    once it is under way. `is_all`: nothing else was pending.
    """

    changes: list[Change]
    waiting: list[Durable]
    is_all: bool = True
    clients: set[ClientId] = field(default_factory=set)
    messages: set[tuple[ClientId, int]] = field(default_factory=set)
    packets: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Rows:
    """Of one owner. `is_ended`: all that the disk has of it goes first."""

    is_ended: bool = False
    gone: dict[Key, Change] = field(default_factory=dict)
    saved: dict[Key, Change] = field(default_factory=dict)

    def is_empty(self) -> bool:
        return not (self.is_ended or self.gone or self.saved)


# Kinds of change: of which kind of row it is, and what names it there.
_NAMES: dict[type, tuple[type, Callable[[Any], object]]] = {
    SessionRecord: (SessionRecord, lambda _row: 0),
    TopicRecord: (TopicRecord, attrgetter("topic_id")),
    SubscriptionRecord: (SubscriptionRecord, attrgetter("topic_filter")),
    SubscriptionDeleted: (SubscriptionRecord, attrgetter("topic_filter")),
    MessageRecord: (MessageRecord, attrgetter("position")),
    MessageDeleted: (MessageRecord, attrgetter("position")),
    RetainedRecord: (RetainedRecord, attrgetter("topic")),
    RetainedDeleted: (RetainedRecord, attrgetter("topic")),
    PacketRecord: (PacketRecord, attrgetter("packet_id")),
    PacketDeleted: (PacketRecord, attrgetter("packet_id")),
    PacketsDeleted: (PacketRecord, lambda _row: None),
    FilterRecord: (FilterRecord, attrgetter("topic_filter")),
    FilterDeleted: (FilterRecord, attrgetter("topic_filter")),
    DueWillRecord: (DueWillRecord, attrgetter("client_id")),
    DueWillDeleted: (DueWillRecord, attrgetter("client_id")),
    PermitRecord: (PermitRecord, attrgetter("client_id")),
    PermitDeleted: (PermitRecord, attrgetter("client_id")),
    WaitingRecord: (WaitingRecord, attrgetter("client_id")),
    WaitingDeleted: (WaitingRecord, attrgetter("client_id")),
    AsideRecord: (AsideRecord, attrgetter("number")),
    AsideDeleted: (AsideRecord, attrgetter("number")),
    RunTimeRecord: (RunTimeRecord, lambda _row: 0),
    ProtectionRecord: (ProtectionRecord, attrgetter("sender_id", "epoch")),
    ProtectionDeleted: (ProtectionRecord, attrgetter("sender_id", "epoch")),
}
_OF_CLIENT = frozenset(
    {
        SessionRecord,
        TopicRecord,
        SubscriptionRecord,
        SubscriptionDeleted,
        MessageRecord,
        MessageDeleted,
    }
)
_GONE = frozenset(
    {
        SubscriptionDeleted,
        MessageDeleted,
        RetainedDeleted,
        PacketDeleted,
        PacketsDeleted,
        FilterDeleted,
        DueWillDeleted,
        PermitDeleted,
        WaitingDeleted,
        AsideDeleted,
        ProtectionDeleted,
    }
)
_SESSION: Key = (SessionRecord, 0)
_ALL_PACKETS: Key = (PacketRecord, None)


def _owner_of(change: Any) -> Owner:
    return change.client_id if type(change) in _OF_CLIENT else None


class Pending:
    """`saved`: what the disk has at the beginning. Of its rows only as much is kept in mind as
    tells cheaply that one cannot be there: clients, each one's highest message, packets.
    """

    def __init__(self, saved: StateRecords | None = None) -> None:
        self.due_at = inf  # when what is here should be written
        self._owners: dict[Owner, _Rows] = {}
        self._freeing: dict[Owner, None] = {}  # those with something gone
        self._waiting: list[Durable] = []
        self._flying: Batch | None = None
        self._clients: set[ClientId] = set()
        self._positions: dict[ClientId, int] = {}
        self._packets: set[int] = set()
        if saved is not None:
            self._remember(saved)

    def __len__(self) -> int:
        """Changes that are not on disk, without those under way."""
        return sum(
            rows.is_ended + len(rows.gone) + len(rows.saved) for rows in self._owners.values()
        )

    @property
    def waiting(self) -> int:
        """Effects that wait, without those of a batch under way."""
        return len(self._waiting)

    # From the core

    def add(self, change: Change, now: float) -> None:
        if type(change) is SessionDeleted:
            self._end(change.client_id)
        else:
            self._put(change)
        if self._owners:
            self.due_at = min(self.due_at, now + LATER_S)

    def wait(self, effects: list[Durable], now: float) -> None:
        """With nothing to wait for they are due at once, in a batch without changes."""
        self._waiting += effects
        is_idle = not self._owners and self._flying is None
        self.due_at = min(self.due_at, now if is_idle else now + WAITED_FOR_S)

    # From the writer

    def take(self, changes_max: int | None = None) -> Batch | None:
        """All that is here, or a part; at most one batch is under way. None: there is nothing.

        In parts, what is gone comes first and by itself, with the rows of its clients: on a full
        disk it can be written while the rest cannot. What waits goes with the last part.
        """
        assert self._flying is None
        if changes_max is None:
            changes = [*self._take_freeing(inf), *self._take_saved(inf)]
        elif self._freeing:
            changes = list(self._take_freeing(changes_max))
        else:
            changes = list(self._take_saved(changes_max))
        waiting: list[Durable] = []
        self.due_at = -inf
        if not self._owners:
            waiting, self._waiting = self._waiting, []
            self.due_at = inf
        if not changes and not waiting:
            return None
        self._flying = _batch_of(changes, waiting, is_all=not self._owners)
        return self._flying

    def probe(self) -> Batch:
        """Nothing at all, to see whether the disk takes it; there is nothing else."""
        assert self._flying is None
        self._flying = Batch([], [])
        return self._flying

    def committed(self, batch: Batch) -> list[Durable]:
        """It is durable; returns what may follow, in order."""
        assert batch is self._flying
        self._flying = None
        for change in batch.changes:
            self._note(change)
        effects = batch.waiting
        if not self._owners:
            effects, self._waiting = effects + self._waiting, []
            self.due_at = inf
        return effects

    def failed(self, batch: Batch) -> None:
        """It is not; what it held goes back under what came meanwhile."""
        assert batch is self._flying
        self._flying = None
        ended: set[Owner] = set()
        for change in reversed(batch.changes):
            self._put_under(change, ended)
        for owner in ended:
            self._owners[owner].is_ended = owner in self._clients
            self._tidy(owner)
        self._waiting = batch.waiting + self._waiting
        self.due_at = -inf if self._owners or self._waiting else inf

    def let_go(self, may_go: Callable[[Durable], bool]) -> list[Durable]:
        """Of what waits, also for the batch under way, that which need not any more; in order."""
        gone: list[Durable] = []
        if self._flying is not None:
            gone, self._flying.waiting = _parted(self._flying.waiting, may_go)
        more, self._waiting = _parted(self._waiting, may_go)
        return gone + more

    # Helpers: one change

    def _put(self, change: Change) -> None:
        kind, name = _NAMES[type(change)]
        owner, key = _owner_of(change), (kind, name(change))
        rows = self._owners.get(owner)
        if rows is None:
            rows = self._owners[owner] = _Rows()
        if type(change) not in _GONE:
            rows.saved[key] = change
            if rows.gone.pop(key, None) is not None:
                self._tidy(owner)  # or a part would be looked for where nothing is gone
            return
        if key == _ALL_PACKETS:
            _drop_packets(rows)
        rows.saved.pop(key, None)
        if self._may_be_on_disk(owner, rows, key):
            rows.gone[key] = change
            self._freeing[owner] = None
        self._tidy(owner)

    def _end(self, client_id: ClientId) -> None:
        self._owners.pop(client_id, None)
        self._freeing.pop(client_id, None)
        if self._is_known(client_id):
            self._owners[client_id] = _Rows(is_ended=True)
            self._freeing[client_id] = None

    def _put_under(self, change: Change, ended: set[Owner]) -> None:
        """`ended` collects those who ended meanwhile."""
        if type(change) is SessionDeleted:
            self._owners.setdefault(change.client_id, _Rows()).is_ended = True
            self._freeing[change.client_id] = None
            return
        kind, name = _NAMES[type(change)]
        owner, key = _owner_of(change), (kind, name(change))
        rows = self._owners.setdefault(owner, _Rows())
        if rows.is_ended:
            ended.add(owner)
        elif key in rows.gone:
            if not self._may_be_on_disk(owner, rows, key):
                del rows.gone[key]
        elif key not in rows.saved and not (kind is PacketRecord and _ALL_PACKETS in rows.gone):
            if type(change) in _GONE:
                rows.gone[key] = change
                self._freeing[owner] = None
            else:
                rows.saved[key] = change
        self._tidy(owner)

    def _tidy(self, owner: Owner) -> None:
        rows = self._owners[owner]
        if not rows.gone and not rows.is_ended:
            self._freeing.pop(owner, None)
        if rows.is_empty():
            del self._owners[owner]

    # Helpers: what the disk has

    def _remember(self, saved: StateRecords) -> None:
        for client in saved.clients:
            client_id = client.session.client_id
            self._clients.add(client_id)
            if client.messages:
                self._positions[client_id] = client.messages[-1].position
        self._packets.update(packet.packet_id for packet in saved.packets)

    def _note(self, change: Change) -> None:
        match change:
            case SessionDeleted(client_id):
                self._clients.discard(client_id)
                self._positions.pop(client_id, None)
            case SessionRecord(client_id) | TopicRecord(client_id) | SubscriptionRecord(client_id):
                self._clients.add(client_id)
            case MessageRecord(client_id, position):
                self._clients.add(client_id)
                self._positions[client_id] = max(position, self._positions.get(client_id, -1))
            case PacketsDeleted():
                self._packets.clear()
            case PacketDeleted(packet_id):
                self._packets.discard(packet_id)
            case PacketRecord(packet_id):
                self._packets.add(packet_id)

    def _is_known(self, client_id: ClientId) -> bool:
        is_flying = self._flying is not None and client_id in self._flying.clients
        return is_flying or client_id in self._clients

    def _may_be_on_disk(self, owner: Owner, rows: _Rows, key: Key) -> bool:
        kind, name = key
        flying = self._flying
        if owner is not None:
            if rows.is_ended or not self._is_known(owner):
                return False
            if kind is not MessageRecord:
                return True
            assert isinstance(name, int)
            is_flying = flying is not None and (owner, name) in flying.messages
            return is_flying or name <= self._positions.get(owner, -1)
        if kind is not PacketRecord:
            return True
        if name is None:
            return bool(self._packets or (flying is not None and flying.packets))
        if _ALL_PACKETS in rows.gone:
            return False
        return name in self._packets or (flying is not None and name in flying.packets)

    # Helpers for `take`

    def _take_freeing(self, changes_max: float) -> Iterator[Change]:
        """What is gone and the sessions beside it, whose numbers must not fall behind it."""
        taken = 0
        for owner in list(self._freeing):
            if taken >= changes_max:
                return
            rows = self._owners[owner]
            if rows.is_ended:
                assert owner is not None
                rows.is_ended = False
                taken += 1
                yield SessionDeleted(owner)
            gone = _take_first(rows.gone, changes_max - taken)
            taken += len(gone)
            yield from gone
            if (session := rows.saved.pop(_SESSION, None)) is not None:
                taken += 1
                yield session
            self._tidy(owner)

    def _take_saved(self, changes_max: float) -> Iterator[Change]:
        taken = 0
        for owner in list(self._owners):
            if taken >= changes_max:
                return
            saved = _take_first(self._owners[owner].saved, changes_max - taken)
            taken += len(saved)
            yield from saved
            self._tidy(owner)


def _parted(
    effects: list[Durable], may_go: Callable[[Durable], bool]
) -> tuple[list[Durable], list[Durable]]:
    """Those that may, and the others."""
    return [each for each in effects if may_go(each)], [
        each for each in effects if not may_go(each)
    ]


def _take_first(changes: dict[Key, Change], count: float) -> list[Change]:
    """Never the first of a dict again and again: each time it passes all that were there before."""
    if len(changes) <= count:
        taken = list(changes.values())
        changes.clear()
        return taken
    return [changes.pop(key) for key in list(islice(changes, int(count)))]


def _drop_packets(rows: _Rows) -> None:
    for of_rows in (rows.gone, rows.saved):
        for key in [key for key in of_rows if key[0] is PacketRecord]:
            del of_rows[key]


# Those of one kind side by side, so that one statement writes them; what is gone before the rest.
_PLACES = {
    kind: place
    for place, kind in enumerate(
        (SessionDeleted, *sorted(_NAMES, key=lambda kind: kind not in _GONE))
    )
}


def _batch_of(changes: list[Change], waiting: list[Durable], *, is_all: bool) -> Batch:
    changes.sort(key=lambda change: _PLACES[type(change)])
    batch = Batch(changes, waiting, is_all)
    for change in changes:
        match change:
            case SessionRecord(client_id) | TopicRecord(client_id) | SubscriptionRecord(client_id):
                batch.clients.add(client_id)
            case MessageRecord(client_id, position):
                batch.clients.add(client_id)
                batch.messages.add((client_id, position))
            case PacketRecord(packet_id):
                batch.packets.add(packet_id)
    return batch
