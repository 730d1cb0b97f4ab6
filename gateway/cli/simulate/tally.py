"""What happened to all sensors together, counted.

Limit: of latencies `LATENCIES_MAX` are kept; of more, each has the same chance to be among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from gateway.cli.sensors.client_effects import (
    Acknowledged,
    Connected,
    ConversationEnded,
    Dropped,
    FellAsleep,
    Received,
    Retransmitted,
)
from gateway.cli.sensors.sensor import Published, SensorEvent, Unreadable

LATENCIES_MAX = 100_000


@dataclass(slots=True)
class Tally:
    """`latencies_s` are from a reading's first PUBLISH to its acknowledgement."""

    dice: Random
    connected: set[str] = field(default_factory=set)  # that ever were
    measured: int = 0
    acknowledged: int = 0
    retries: int = 0
    received: int = 0
    dropped: int = 0
    reconnects: int = 0
    naps: int = 0
    unreadable: int = 0
    latency_s_max: float = 0.0
    latencies_s: list[float] = field(default_factory=list)

    def on_event(self, name: str, event: SensorEvent) -> None:
        match event:
            case Published():
                self.measured += 1
            case Acknowledged():
                self._add_latency(event.after_s)
            case Connected():
                self.connected.add(name)
            case FellAsleep():
                self.naps += 1
            case Retransmitted():
                self.retries += 1
            case Received():
                self.received += 1
            case _:
                self._count_trouble(event)

    def quantile_s(self, share: float) -> float | None:
        return quantile(sorted(self.latencies_s), share)

    def _count_trouble(self, event: SensorEvent) -> None:
        match event:
            case Dropped():
                self.dropped += 1
            case ConversationEnded():
                self.reconnects += 1
            case Unreadable():
                self.unreadable += 1
            case _:
                pass

    def _add_latency(self, latency_s: float) -> None:
        self.acknowledged += 1
        self.latency_s_max = max(self.latency_s_max, latency_s)
        if len(self.latencies_s) < LATENCIES_MAX:
            self.latencies_s.append(latency_s)
            return
        place = self.dice.randrange(self.acknowledged)
        if place < LATENCIES_MAX:
            self.latencies_s[place] = latency_s


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The value that this share of all does not exceed."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
