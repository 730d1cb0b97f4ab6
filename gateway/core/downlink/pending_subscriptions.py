"""Subscriptions on their way from SUBSCRIBE to SUBACK: they wait for the broker, then for the disk.

What is published after SUBACK is to come, so the broker must have the subscription by then. One
that is away cannot say that; and a sensor that starts in an outage must come to publish. So those
that ask wait for a broker that was there a moment ago, or has not been asked yet, and are accepted
without it after `BROKER_PATIENCE_S`. In that time it is tried twice (transports/reconnect.py), and
no client repeats SUBSCRIBE yet (10 s and more, MQTT-SN 1.2, 7.2).

A broker that comes and goes and grants nothing does not begin the time again: where it refuses by
closing the connection nobody would be accepted.

A subscription that is in memory alone would be gone after a restart, and its client could not
notice that. So one that is not durable after `DISK_PATIENCE_S` is refused with "congestion": the
client may go on, look for another gateway, or ask again later.

Limits: one entry for each wish that a session has, which are bounded there.
"""

from __future__ import annotations

from math import inf

from gateway.core.state_records import ClientId
from gateway.core.values import SubscribeTo

BROKER_PATIENCE_S = 3.0
# After the watch has found that the answer is owed (15 s), and before a client has given up that
# repeats SUBSCRIBE each 10 s for three times.
DISK_PATIENCE_S = 20.0

_Key = tuple[ClientId, int]


class PendingSubscriptions:
    def __init__(self) -> None:
        self.is_there = False  # the broker, until the end of the connection is heard of
        # When those that wait are accepted without the broker; infinity while it is there, and
        # where nobody waits.
        self.due_at = inf
        # By the covering filter that is not granted, then by client and message id.
        self._asked: dict[str, dict[_Key, SubscribeTo]] = {}
        # Accepted, and not durable yet; until when that is waited for. In the order of that.
        self._saving: dict[_Key, tuple[SubscribeTo, float]] = {}
        self.refused_at = inf  # when the first of them is refused
        # Until when it is waited for while it is away; infinity if that has not begun.
        self._patient_until = inf

    def __len__(self) -> int:
        """How many wait for the broker."""
        return sum(map(len, self._asked.values()))

    # The broker

    def opened(self) -> None:
        self.is_there = True
        self.due_at = inf

    def closed(self, now: float) -> list[SubscribeTo]:
        """It is away, or was sought without success. Returns those that wait no longer."""
        if self.is_there and not self._asked:
            self._patient_until = inf
        self.is_there = False
        self._begin(now)
        if self._asked:
            self.due_at = self._patient_until
        return self.due(now)

    def due(self, now: float) -> list[SubscribeTo]:
        """Those that have waited for long enough."""
        if now < self.due_at:
            return []
        self.due_at = inf
        waiting, self._asked = self._asked, {}
        return [asked for entries in waiting.values() for asked in entries.values()]

    def is_patient(self, now: float) -> bool:
        """Whether who asks now waits for a broker that is away."""
        return now < self._patient_until

    def _begin(self, now: float) -> None:
        self._patient_until = min(self._patient_until, now + BROKER_PATIENCE_S)

    # Those that wait for it

    def wait(self, asked: SubscribeTo, cover: str) -> None:
        """For the answer of a broker that is there."""
        if not self._asked:
            self._patient_until = inf
        self.add(asked, cover)

    def wait_for_return(self, asked: SubscribeTo, cover: str, now: float) -> None:
        """Of one that is away."""
        self._begin(now)
        self.due_at = self._patient_until
        self.add(asked, cover)

    def add(self, asked: SubscribeTo, cover: str) -> None:
        """It waits as before, for another filter."""
        self._asked.setdefault(cover, {})[_key(asked)] = asked

    def take(self, cover: str) -> list[SubscribeTo]:
        """Those that waited for this filter, and wait no more."""
        return list(self._asked.pop(cover, {}).values())

    def waiting_for(self, cover: str) -> list[SubscribeTo]:
        return list(self._asked.get(cover, {}).values())

    # Those that wait for the disk

    def save(self, asked: SubscribeTo, now: float) -> None:
        """It waits for the disk now."""
        self._saving[_key(asked)] = asked, now + DISK_PATIENCE_S
        self._look_at_first()

    def saving(self) -> list[SubscribeTo]:
        return [asked for asked, _ in self._saving.values()]

    def saved(self, asked: SubscribeTo) -> bool:
        """Whether it is still wanted, now that it is durable."""
        if not self.is_saving(asked):
            return False
        self._end_saving(asked)
        return True

    def not_saved(self, now: float) -> list[SubscribeTo]:
        """Those that have waited for the disk for long enough."""
        if now < self.refused_at:
            return []
        return [asked for asked, until in self._saving.values() if until <= now]

    def _end_saving(self, asked: SubscribeTo) -> None:
        del self._saving[_key(asked)]
        self._look_at_first()

    def _look_at_first(self) -> None:
        self.refused_at = inf
        for _, until in self._saving.values():
            self.refused_at = until
            break

    # Both

    def is_waiting(self, asked: SubscribeTo, cover: str) -> bool:
        """For the broker."""
        return self._asked.get(cover, {}).get(_key(asked)) is asked

    def is_saving(self, asked: SubscribeTo) -> bool:
        saving = self._saving.get(_key(asked))
        return saving is not None and saving[0] is asked

    def drop(self, asked: SubscribeTo, cover: str) -> None:
        """It waits for nothing any more."""
        if _key(asked) in self._saving:
            self._end_saving(asked)
            return
        waiting = self._asked[cover]
        del waiting[_key(asked)]
        if not waiting:
            del self._asked[cover]


def _key(asked: SubscribeTo) -> _Key:
    return asked.client_id, asked.message_id
