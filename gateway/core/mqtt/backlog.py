"""Readings that wait in the journal for the broker: how many of whom, and the few read back.

What is *queued on disk* is in the journal only: the core keeps no more of it than a count for each
client, so that nothing of a client passes what it sent before. When the broker has room, readings
queued on disk are read back in order, some at a time, into `ready`.

With `coalesce_retained` only the newest of the retained readings on a topic is worth sending. Only
readings queued on disk in this life are left out: of an older one the broker may have seen half.

Limits: `READY_MAX` readings are in memory at once (the journal may bring one batch more); counts
are for clients that have something here, newest values for `TOPICS_MAX` topics (those of further
ones are all sent).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from gateway.core.state_records import ClientId
from gateway.core.values import Reading

READY_MAX = 512
TOPICS_MAX = 10_000


class Backlog:
    def __init__(self) -> None:
        # How many readings of each client are queued on disk or ready.
        self.of_clients: dict[ClientId, int] = {}
        self.ready: deque[Reading] = deque()
        self.is_reading = False  # the journal was asked and has not answered
        self.is_paused = False  # by the operator: what is queued on disk stays so
        self.reads = 0  # answers of the journal so far
        self._storing = 0  # on their way into the journal
        self._readable = 0  # queued on disk, durable, and not read back
        self._newest: dict[str, int] = {}  # retained, by topic: its sequence in this life

    def __len__(self) -> int:
        """How many readings can be read back, and are."""
        return self._readable + len(self.ready)

    @property
    def wants_more(self) -> bool:
        if self.is_reading or self.is_paused:
            return False
        return self._readable > 0 and len(self.ready) < READY_MAX

    @property
    def is_drained(self) -> bool:
        """Whether none is queued on disk before those that are on their way into the journal."""
        return not (self._readable or self.ready or self.is_reading)

    # Into the journal

    def restore(self, queued: Mapping[ClientId, int]) -> None:
        """What a previous run left in the journal."""
        self.of_clients.update(queued)
        self._readable = sum(queued.values())

    def enqueue(self, client_id: ClientId) -> None:
        """A reading is on its way into the journal, and nowhere else from then on."""
        self._storing += 1
        self.of_clients[client_id] = self.of_clients.get(client_id, 0) + 1

    def queued(self, reading: Reading, *, coalesce: bool) -> None:
        """The reading is there, durably; so one before it may be left out for it."""
        self._storing -= 1
        self._readable += 1
        if coalesce and reading.retain:
            topic = reading.topic
            if topic in self._newest or len(self._newest) < TOPICS_MAX:
                self._newest[topic] = reading.sequence

    def not_queued(self, client_id: ClientId) -> None:
        """A reading could not be written, or goes on at once."""
        self._storing -= 1
        self.unqueue(client_id)

    def unqueue(self, client_id: ClientId, count: int = 1) -> None:
        """Readings of a client wait no longer."""
        left = self.of_clients.get(client_id, 0) - count
        if left > 0:
            self.of_clients[client_id] = left
        else:
            self.of_clients.pop(client_id, None)
        if not self.of_clients:
            self._newest.clear()

    def drop(self, client_id: ClientId, count: int) -> None:
        """The journal gave up readings to make room."""
        self._readable = max(0, self._readable - count)
        self.unqueue(client_id, count)

    def in_reach_again(self, count: int) -> None:
        """So many can be read back that could not be found for a while. Whose they are is seen when
        they come.
        """
        self._readable += count

    # Back from the journal

    def read_back(self, readings: list[Reading]) -> None:
        """What the journal brought; nothing says that it has no more of what was counted."""
        self.is_reading = False
        self.reads += 1
        self.ready += readings
        self._readable -= len(readings)
        if not readings or self._readable < 0:
            self._readable = 0
        if not readings and not self.ready and not self._storing:
            self.of_clients.clear()
            self._newest.clear()

    def leave_out(self, readings: Iterable[Reading]) -> None:
        """These were read back, and need not be sent."""
        for reading in readings:
            self.ready.remove(reading)
            self.unqueue(reading.client_id)

    def take(self) -> Reading:
        """The next one goes on."""
        reading = self.ready.popleft()
        self.unqueue(reading.client_id)
        return reading

    def is_outdated(self, reading: Reading, epoch: int) -> bool:
        """Whether a newer retained reading of its topic waits behind it."""
        if not reading.retain or reading.epoch != epoch:
            return False
        return self._newest.get(reading.topic, reading.sequence) > reading.sequence
