"""The broker's retained messages, as far as our clients are subscribed to them.

A client that subscribes under a filter we already have at the broker gets its retained messages
from here, also while the broker is away. What is kept is exact while we are connected, because
the broker marks live publications that are retained (Retain As Published); after a reconnect
every entry is unconfirmed until the broker sends it again, and what it does not send again within
the engine's `REPLAY_WINDOW_S` is gone.

Full: beyond `messages_max` or `bytes_max` a further topic is not kept; that is counted and said.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gateway.effects import Message
from gateway.routing.topic_tree import TopicTree


class Kept(Enum):
    """What `keep` found."""

    NEW = "new"  # another value than before, or the first
    SAME = "same"
    FULL = "full"


@dataclass(slots=True)
class _Entry:
    message: Message
    confirmed: bool = True


class Retained:
    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._entries: TopicTree[_Entry] = TopicTree()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, topic: str) -> bool:
        return topic in self._entries

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def keep(self, message: Message) -> Kept:
        """Take over a retained message; an empty payload clears its topic."""
        topic, payload = message.topic, message.payload
        entry = self._entries.get(topic)
        if entry is not None and entry.message.payload == payload:
            entry.confirmed = True
            entry.message.qos = message.qos
            return Kept.SAME
        self.forget(topic)
        if not payload:
            return Kept.NEW if entry is not None else Kept.SAME
        size = len(topic) + len(payload)
        if len(self._entries) >= self._messages_max or self._bytes + size > self._bytes_max:
            return Kept.FULL
        self._bytes += size
        self._entries.put(topic, _Entry(Message(topic, payload, message.qos, retain=True)))
        return Kept.NEW

    def matching(self, topic_filter: str) -> list[Message]:
        return [entry.message for _, entry in self._entries.under(topic_filter)]

    def topics_under(self, topic_filter: str) -> list[str]:
        return [topic for topic, _ in self._entries.under(topic_filter)]

    def forget(self, topic: str) -> None:
        entry = self._entries.pop(topic)
        if entry is not None:
            self._bytes -= len(topic) + len(entry.message.payload)

    def doubt(self) -> None:
        """The connection broke: what was cleared meanwhile will not be told."""
        for topic in self._entries:
            entry = self._entries.get(topic)
            assert entry is not None
            entry.confirmed = False

    def forget_unconfirmed(self) -> int:
        """The broker has had time to send everything again; returns how many it did not."""
        gone = [topic for topic in self._entries if not self._confirmed(topic)]
        for topic in gone:
            self.forget(topic)
        return len(gone)

    def _confirmed(self, topic: str) -> bool:
        entry = self._entries.get(topic)
        return entry is not None and entry.confirmed
