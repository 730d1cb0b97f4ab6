"""The broker's retained messages, as far as our clients are subscribed to them.

A client that subscribes under a filter we already have at the broker gets its retained messages
from here, also while the broker is away. What is kept is exact while we are connected, because
the broker marks live publications that are retained (Retain As Published); after a reconnect
every entry is unconfirmed until the broker sends it again, and what it does not send again within
the engine's `REPLAY_WINDOW_S` is gone. It outlasts a restart of ours like a reconnect: what changes
here is saved, and comes back unconfirmed.

A subscription of ours brings a message at its own QoS if that of the publication is higher. What is
known so is not *exact*: who asks for a higher QoS has to wait for what the broker says to that.

What its publisher gave a time (message_expiry.py) is handed to no client after that; then it goes
from here and from the disk, within `SWEEP_S`.

Full: beyond `messages_max` or `bytes_max` a further topic is not kept; that is counted and said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from gateway.core.effects import Save
from gateway.core.events import Output
from gateway.core.message_expiry import Expiry, ExpiryClock, is_over, saved
from gateway.core.state_records import RetainedDeleted, RetainedRecord
from gateway.core.topic_trie import TopicTree
from gateway.core.values import Message


@dataclass(frozen=True, slots=True)
class KeepResult:
    """What `keep` found: who asked for a QoS above `had_at` has not got this value from us."""

    had_at: int
    is_full: bool = False


NEW = KeepResult(-1)  # another value than before, or the first
SAME = KeepResult(2)
SWEEP_S = 1.0  # no more often all that have a time are looked at
FULL = KeepResult(-1, is_full=True)


@dataclass(slots=True)
class _Entry:
    message: Message
    is_exact: bool  # else it was published at this QoS or at a higher one
    confirmed: bool = True

    def row(self) -> RetainedRecord:
        message = self.message
        return RetainedRecord(
            topic=message.topic,
            payload=message.payload,
            qos=message.qos,
            is_exact=self.is_exact,
            expiry=saved(message.expiry),
        )


class Retained:
    """`due_at`: when one of them may be over."""

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._entries: TopicTree[_Entry] = TopicTree()
        self.due_at = inf
        self._expiring: dict[str, Expiry] = {}  # by topic
        self._sweep_from = -inf

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, topic: str) -> bool:
        return topic in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def get(self, topic: str) -> Message | None:
        entry = self._entries.get(topic)
        return None if entry is None else entry.message

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def restore(self, saved: list[RetainedRecord], expiry_clock: ExpiryClock, now: float) -> None:
        """What a previous run kept, as far as there is room."""
        for row in saved:
            message = Message(row.topic, row.payload, row.qos, retain=True)
            if row.expiry is not None:
                message.expiry = expiry_clock.restored(row.expiry, now)
            entry = _Entry(message, row.is_exact, confirmed=False)
            if self._has_room(row.topic, row.payload):
                self._put(entry)

    def keep(self, message: Message, *, is_exact: bool) -> tuple[KeepResult, list[Output]]:
        """Take over a retained message; an empty payload clears its topic. With it comes what is to
        be saved. `is_exact`: this is the QoS at which it was published.
        """
        topic, payload = message.topic, message.payload
        entry = self._entries.get(topic)
        if entry is not None and entry.message.payload == payload:
            entry.confirmed = True
            return self._keep_same(entry, message, is_exact=is_exact)
        effects = self.forget(topic)
        if not payload:
            return (SAME if entry is None else NEW), effects
        if not self._has_room(topic, payload):
            return FULL, effects
        kept = Message(topic, payload, message.qos, retain=True, expiry=message.expiry)
        entry = _Entry(kept, is_exact)
        self._put(entry)
        return NEW, [Save(entry.row())]

    def matching(self, topic_filter: str, qos: int, now: float) -> list[Message]:
        """As far as they are known for one who asks for this QoS."""
        return [
            entry.message
            for _, entry in self._entries.under(topic_filter)
            if (entry.is_exact or entry.message.qos >= qos)
            and not is_over(entry.message.expiry, now)
        ]

    def topics_under(self, topic_filter: str) -> list[str]:
        return [topic for topic, _ in self._entries.under(topic_filter)]

    def forget(self, topic: str) -> list[Output]:
        entry = self._entries.pop(topic)
        if entry is None:
            return []
        self._bytes -= len(topic) + len(entry.message.payload)
        self._expiring.pop(topic, None)
        return [Save(RetainedDeleted(topic))]

    def require_validation(self) -> None:
        """The connection broke: what was cleared meanwhile will not be told."""
        for _, entry in self._entries.all():
            entry.confirmed = False

    def forget_unconfirmed(self) -> list[Output]:
        """The broker has had time to send everything again; what it did not is gone."""
        gone = [topic for topic, entry in self._entries.all() if not entry.confirmed]
        return [effect for topic in gone for effect in self.forget(topic)]

    def sweep(self, now: float) -> list[Output]:
        """What is over is gone."""
        if now < self.due_at:
            return []
        over = [topic for topic, expiry in self._expiring.items() if expiry.is_over(now)]
        effects = [effect for topic in over for effect in self.forget(topic)]
        self._sweep_from = now + SWEEP_S
        self.look_again()
        return effects

    def look_again(self) -> None:
        """A clock may say otherwise than before."""
        earliest = min((expiry.over_at() for expiry in self._expiring.values()), default=inf)
        self.due_at = max(earliest, self._sweep_from)

    def _keep_same(
        self, entry: _Entry, again: Message, *, is_exact: bool
    ) -> tuple[KeepResult, list[Output]]:
        """The same value again; it may be known better now, or last longer."""
        message, was_exact = entry.message, entry.is_exact
        qos, known_qos = again.qos, message.qos
        is_renewed = message.expiry is not again.expiry
        if is_renewed:
            message.expiry = again.expiry
            self._note_expiry(message)
        if (qos <= known_qos and not is_exact) or (qos, is_exact) == (known_qos, was_exact):
            return SAME, [Save(entry.row())] if is_renewed else []
        message.qos, entry.is_exact = qos, is_exact
        found = SAME if was_exact else KeepResult(known_qos)
        return found, [Save(entry.row())]

    def _has_room(self, topic: str, payload: bytes) -> bool:
        size = len(topic) + len(payload)
        return len(self._entries) < self._messages_max and self._bytes + size <= self._bytes_max

    def _put(self, entry: _Entry) -> None:
        message = entry.message
        self._bytes += len(message.topic) + len(message.payload)
        self._entries.put(message.topic, entry)
        if message.expiry is not None:
            self._note_expiry(message)

    def _note_expiry(self, message: Message) -> None:
        self._expiring.pop(message.topic, None)
        if message.expiry is not None:
            self._expiring[message.topic] = message.expiry
            self.due_at = min(self.due_at, max(message.expiry.over_at(), self._sweep_from))
