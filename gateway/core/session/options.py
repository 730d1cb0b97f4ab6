"""The numbers a session keeps to: timers of the specification and limits of this gateway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

from gateway.core.access.gate import AccessGate

# Keep-alive and sleep are supervised with a tolerance (1.2, 7.2).
TOLERANCE_UP_TO_A_MINUTE = 1.5
TOLERANCE_ABOVE = 1.1
DEADLINES_MAX = 1024


class WhenOutboxFull(Enum):
    """Which message gives way. QoS 0 always does before any other."""

    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What every session of one gateway has in common. Times in seconds, sizes in bytes."""

    retry_after_s: float = 10.0  # T_retry: 10-15 s recommended (1.2, 7.2)
    retry_count_max: int = 4  # N_retry: 3-5 recommended
    topics_max: int = 256
    subscriptions_max: int = 64
    outbox_messages_max: int = 1000
    outbox_bytes_max: int = 256 * 1024
    when_outbox_full: WhenOutboxFull = WhenOutboxFull.DROP_OLDEST
    queues_qos_0_for_sleepers: bool = False
    awake_s_max: float = 10.0  # that what comes meanwhile keeps a sleeper awake
    payload_bytes_max: int = 1024
    topic_bytes_max: int = 512
    egress_bytes_per_s_max: int = 0  # towards one client; 0 for no limit
    access: AccessGate = field(default_factory=AccessGate)

    @property
    def patience_s(self) -> float:
        """How long something that is repeated may remain unanswered."""
        return self.retry_after_s * (self.retry_count_max + 1)


@dataclass(frozen=True, slots=True)
class PredefinedTopics:
    """Topic names that both sides know by number from their configuration."""

    names: Mapping[int, str] = field(default_factory=dict)
    ids: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, ids: Mapping[str, int]) -> PredefinedTopics:
        return cls({topic_id: name for name, topic_id in ids.items()}, dict(ids))

    def overlaid_with(self, own: Mapping[str, int]) -> PredefinedTopics:
        """The same with one client's own ids, which win over the common ones."""
        names = dict(self.names) | {topic_id: name for name, topic_id in own.items()}
        return PredefinedTopics(names, {name: topic_id for topic_id, name in names.items()})


@lru_cache(DEADLINES_MAX)
def deadline_s(declared_s: float) -> float:
    """How long a client that declared this keep-alive or sleep may be silent, in seconds.

    Very many declare the same, and share the number.
    """
    return declared_s * (TOLERANCE_UP_TO_A_MINUTE if declared_s <= 60 else TOLERANCE_ABOVE)
