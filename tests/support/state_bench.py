"""A bench whose engine saves what outlasts a restart, and may lose its power.

`Rows` stands for the state store: what was committed is durable, what was only said is pending and
goes with the power. Unless `holds_disk` is set the disk is as fast as can be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeVar

from gateway.core.effects import Durable, Effect, Save, WhenSaved
from gateway.core.engine import Engine, EngineOptions
from gateway.core.state_records import (
    Change,
    ClientRecord,
    DueWillRecord,
    FilterRecord,
    MessageRecord,
    PacketRecord,
    PacketsDeleted,
    RetainedRecord,
    SessionDeleted,
    SessionRecord,
    StateRecords,
    SubscriptionRecord,
    TopicRecord,
)
from gateway.frames import Disconnect
from tests.support.engine_bench import UPSTREAM, Bench

Row = TypeVar("Row")

SAVING = EngineOptions(UPSTREAM, saves=True)


# How many of its first fields are the key of a row.
KEY_FIELDS = {
    "Session": 1, "Topic": 2, "Subscription": 2, "Message": 2, "Retained": 1, "Packet": 1,
    "Packets": 0, "Filter": 1, "DueWill": 1, "Aside": 1,
}  # fmt: skip


class Rows:
    def __init__(self) -> None:
        self.durable: dict[tuple[object, ...], Change] = {}
        self.pending: list[Change] = []
        self.waiting: list[Durable] = []

    def commit(self) -> list[Durable]:
        """All that is pending becomes durable; returns what waited for it."""
        for change in self.pending:
            self._apply(change)
        waiting, self.waiting = self.waiting, []
        self.pending.clear()
        return waiting

    def lose_power(self) -> None:
        self.pending.clear()
        self.waiting.clear()

    def state(self) -> StateRecords:
        clients: dict[str, ClientRecord] = {}
        for row in self._of(SessionRecord):
            clients[row.client_id] = ClientRecord(row, [], [], [])
        for topic in sorted(self._of(TopicRecord), key=lambda row: row.topic_id):
            clients[topic.client_id].topics.append(topic)
        for subscription in self._of(SubscriptionRecord):
            clients[subscription.client_id].subscriptions.append(subscription)
        for message in sorted(self._of(MessageRecord), key=lambda row: row.position):
            clients[message.client_id].messages.append(replace(message))
        filters = [row.topic_filter for row in self._of(FilterRecord)]
        retained, packets = self._of(RetainedRecord), self._of(PacketRecord)
        due = self._of(DueWillRecord)
        return StateRecords(list(clients.values()), retained, packets, filters, due)

    def _of(self, kind: type[Row]) -> list[Row]:
        return [row for row in self.durable.values() if isinstance(row, kind)]

    def _apply(self, change: Change) -> None:
        key, is_gone = key_of(change)
        if isinstance(change, SessionDeleted):
            self._take_away(
                lambda row: (
                    getattr(row, "client_id", None) == change.client_id
                    and not isinstance(row, DueWillRecord)
                )
            )
        elif isinstance(change, PacketsDeleted):
            self._take_away(lambda row: isinstance(row, PacketRecord))
        elif is_gone:
            self.durable.pop(key, None)
        else:
            self.durable[key] = change

    def _take_away(self, is_one: Callable[[Change], bool]) -> None:
        self.durable = {key: row for key, row in self.durable.items() if not is_one(row)}


def key_of(change: Change) -> tuple[tuple[object, ...], bool]:
    """The key of a row, and whether the row is gone."""
    kind = type(change).__name__.removesuffix("Record")
    is_gone = kind.endswith("Deleted")
    values = [getattr(change, each.name) for each in fields(change)]
    key = (kind.removesuffix("Deleted"), *values[: KEY_FIELDS[kind.removesuffix("Deleted")]])
    return key, is_gone


def _as_it_is(change: Change) -> Change:
    """The store may look at it later, on another thread."""
    return replace(change) if isinstance(change, MessageRecord) else change


class StateBench(Bench):
    def __init__(self, options: EngineOptions = SAVING, *, connected: bool = True) -> None:
        self.rows = Rows()
        self.holds_disk = False
        self.written = 0  # changes, in all
        self._options = options
        super().__init__(options, connected=connected)

    def take(self, effects: list[Effect]) -> None:
        others: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Save):
                self.rows.pending.append(_as_it_is(effect.change))
                self.written += 1
            elif isinstance(effect, WhenSaved):
                self.rows.waiting += effect.then
            else:
                others.append(effect)
        super().take(others)
        if not self.holds_disk:
            self.flush()

    def flush(self) -> None:
        while self.rows.pending or self.rows.waiting:
            self.take(self.engine.durable(self.rows.commit(), self.at))

    def saved(self) -> list[Change]:
        """What was said to be saved since the last look, on a disk that is held."""
        saved, self.rows.pending = self.rows.pending, []
        for change in saved:
            self.rows._apply(change)
        return saved

    def let_disk_go(self) -> None:
        self.holds_disk = False
        self.flush()

    def restart(self, options: EngineOptions | None = None, *, connected: bool = True) -> None:
        """The power goes and comes back; the broker has the session, and nothing else is new."""
        self.rows.lose_power()
        self.heard.clear()
        self.packets.clear()
        self.holds_disk = False
        self.engine = Engine(options or self._options)
        self.take(self.engine.restore(self.rows.state(), self.at))
        if connected:
            self.connect_broker(session_present=True)


def sleeper(
    at: bytes, bench: StateBench | None = None, *, clean: bool = False, messages: int = 0
) -> StateBench:
    """s1 sleeps there, subscribed to "cmd", on which so many QoS 1 messages wait for it."""
    bench = bench or StateBench()
    bench.join(b"s1", at=at, clean=clean)
    bench.subscribe(at, b"cmd", qos=1)
    assert bench.say(at, Disconnect(600)) == [Disconnect()]
    for number in range(messages):
        bench.publishes("cmd", b"%d" % number, qos=1, by="cmd")
    bench.news.clear()
    return bench
