"""A bench whose engine saves what outlasts a restart, and may lose its power.

`Rows` stands for the state store: what was committed is durable, what was only said is pending and
goes with the power. Unless `holds_disk` is set the disk is as fast as can be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeVar

from gateway.core.effects import Effect, Save, WhenSaved
from gateway.core.engine import Engine, EngineRules
from gateway.core.state_records import (
    Change,
    PacketsGone,
    SavedClient,
    SavedDueWill,
    SavedFilter,
    SavedMessage,
    SavedPacket,
    SavedRetained,
    SavedSession,
    SavedState,
    SavedSubscription,
    SavedTopic,
    SessionGone,
)
from tests.support.engine_bench import UPSTREAM, Bench

Row = TypeVar("Row")

SAVING = EngineRules(UPSTREAM, saves=True)


# How many of its first fields are the key of a row.
KEY_FIELDS = {
    "Session": 1, "Topic": 2, "Subscription": 2, "Message": 2, "Retained": 1, "Packet": 1,
    "Packets": 0, "Filter": 1, "DueWill": 1,
}  # fmt: skip


class Rows:
    def __init__(self) -> None:
        self.durable: dict[tuple[object, ...], Change] = {}
        self.pending: list[Change] = []
        self.waiting: list[Effect] = []

    def commit(self) -> list[Effect]:
        """All that is pending becomes durable; returns what waited for it."""
        for change in self.pending:
            self._apply(change)
        waiting, self.waiting = self.waiting, []
        self.pending.clear()
        return waiting

    def lose_power(self) -> None:
        self.pending.clear()
        self.waiting.clear()

    def state(self) -> SavedState:
        clients: dict[str, SavedClient] = {}
        for row in self._of(SavedSession):
            clients[row.client_id] = SavedClient(row, [], [], [])
        for topic in sorted(self._of(SavedTopic), key=lambda row: row.topic_id):
            clients[topic.client_id].topics.append(topic)
        for subscription in self._of(SavedSubscription):
            clients[subscription.client_id].subscriptions.append(subscription)
        for message in sorted(self._of(SavedMessage), key=lambda row: row.position):
            clients[message.client_id].messages.append(replace(message))
        filters = [row.topic_filter for row in self._of(SavedFilter)]
        retained, packets = self._of(SavedRetained), self._of(SavedPacket)
        due = self._of(SavedDueWill)
        return SavedState(list(clients.values()), retained, packets, filters, due)

    def _of(self, kind: type[Row]) -> list[Row]:
        return [row for row in self.durable.values() if isinstance(row, kind)]

    def _apply(self, change: Change) -> None:
        key, is_gone = key_of(change)
        if isinstance(change, SessionGone):
            self._take_away(
                lambda row: (
                    getattr(row, "client_id", None) == change.client_id
                    and not isinstance(row, SavedDueWill)
                )
            )
        elif isinstance(change, PacketsGone):
            self._take_away(lambda row: isinstance(row, SavedPacket))
        elif is_gone:
            self.durable.pop(key, None)
        else:
            self.durable[key] = change

    def _take_away(self, is_one: Callable[[Change], bool]) -> None:
        self.durable = {key: row for key, row in self.durable.items() if not is_one(row)}


def key_of(change: Change) -> tuple[tuple[object, ...], bool]:
    """The key of a row, and whether the row is gone."""
    kind = type(change).__name__.removeprefix("Saved")
    is_gone = kind.endswith("Gone")
    values = [getattr(change, each.name) for each in fields(change)]
    key = (kind.removesuffix("Gone"), *values[: KEY_FIELDS[kind.removesuffix("Gone")]])
    return key, is_gone


def _as_it_is(change: Change) -> Change:
    """The store may look at it later, on another thread."""
    return replace(change) if isinstance(change, SavedMessage) else change


class StateBench(Bench):
    def __init__(self, rules: EngineRules = SAVING, *, connected: bool = True) -> None:
        self.rows = Rows()
        self.holds_disk = False
        self.written = 0  # changes, in all
        self._rules = rules
        super().__init__(rules, connected=connected)

    def take(self, effects: list[Effect]) -> None:
        others: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Save):
                self.rows.pending.append(_as_it_is(effect.change))
                self.written += 1
            elif isinstance(effect, WhenSaved):
                self.rows.waiting += effect.effects
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

    def restart(self, rules: EngineRules | None = None, *, connected: bool = True) -> None:
        """The power goes and comes back; the broker has the session, and nothing else is new."""
        self.rows.lose_power()
        self.heard.clear()
        self.packets.clear()
        self.holds_disk = False
        self.engine = Engine(rules or self._rules)
        self.take(self.engine.restore(self.rows.state(), self.at))
        if connected:
            self.connect_broker(session_present=True)
