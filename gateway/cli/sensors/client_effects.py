"""Effects of a simulated sensor's client: `Send` is work, all others are events."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True)
class Send:
    datagram: bytes


@dataclass(frozen=True, slots=True)
class Connected:
    """The conversation is complete: connected, commands subscribed."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The gateway has taken the reading: PUBACK, or PUBCOMP for QoS 2.

    `after_s` is the time since its first PUBLISH, repeats and reconnects included.
    """

    payload: bytes
    after_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Retransmitted:
    """The request that is sent next was sent before."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message from the gateway, by topic name."""

    topic: bytes
    payload: bytes


class DropReason(Enum):
    QUEUE_FULL = "queue full"
    REFUSED = "refused by the gateway"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A reading that will not be sent any more."""

    reason: DropReason


class EndReason(Enum):
    SILENCE = "no answer"
    REFUSED = "refused"
    BY_GATEWAY = "told to reconnect"


@dataclass(frozen=True, slots=True)
class ConversationEnded:
    """The conversation is over; the client connects again by itself after a pause."""

    reason: EndReason


@dataclass(frozen=True, slots=True)
class FellAsleep:
    """The gateway has acknowledged it. The client wakes by itself, or when it has a reading."""

    for_s: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The conversation ended because the sensor ended it."""


Effect = (
    Send
    | Connected
    | Acknowledged
    | Retransmitted
    | Received
    | Dropped
    | ConversationEnded
    | FellAsleep
    | Finished
)
