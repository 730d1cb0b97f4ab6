"""Messages that are here but not on disk yet, and when they have waited long enough. Pure.

Limits: all messages of QoS 1 together are bounded by the Receive Maximum, or else by packet ids.
QoS 0 has no such bound, so it is refused at `messages_max` of them waiting, and counted. What all
of them hold is bounded by `held_bytes_max`, at which the collector stops reading from the broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from spark_ingest.payload.record import Delivery

# What a message costs beside its payload and topic: the objects of its properties and itself.
MESSAGE_BYTES = 1000


@dataclass(frozen=True, slots=True)
class RotationOptions:
    messages_max: int
    bytes_max: int
    linger_s: float
    held_bytes_max: int


class Batch:
    def __init__(self, options: RotationOptions, receive_max: int) -> None:
        self.deliveries: list[Delivery] = []
        self.bytes = 0
        self._options = options
        # Half of what may come unacknowledged, so that one half is written while the other comes.
        self._messages_due = max(1, min(options.messages_max, receive_max // 2))
        self._due_at = inf

    def __bool__(self) -> bool:
        return bool(self.deliveries)

    def add(self, delivery: Delivery, now: float) -> bool:
        """Whether there was room."""
        if delivery.qos == 0 and len(self.deliveries) >= self._options.messages_max:
            return False
        if not self.deliveries:
            self._due_at = now + self._options.linger_s
        self.deliveries.append(delivery)
        self.bytes += MESSAGE_BYTES + len(delivery.payload) + len(delivery.topic)
        return True

    def due_at(self) -> float:
        """Now or earlier if it is large enough, never if it is empty."""
        if len(self.deliveries) >= self._messages_due or self.bytes >= self._options.bytes_max:
            return 0.0
        return self._due_at

    def take(self) -> list[Delivery]:
        taken, self.deliveries = self.deliveries, []
        self.bytes, self._due_at = 0, inf
        return taken
