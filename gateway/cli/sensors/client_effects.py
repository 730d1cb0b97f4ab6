"""What a simulated sensor's client tells its shell: `Send` is work, everything else is news."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from gateway.frames import Frame


@dataclass(frozen=True, slots=True)
class Send:
    frame: Frame


@dataclass(frozen=True, slots=True)
class Connected:
    """The conversation is complete: connected, topic registered, commands subscribed."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The gateway has taken the reading: PUBACK, or PUBCOMP for QoS 2.

    `after_s` is the time since its first PUBLISH, repeats and reconnects included.
    """

    payload: bytes
    after_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Retransmitted:
    frame: Frame


@dataclass(frozen=True, slots=True)
class Received:
    """A message from the gateway, by topic name."""

    topic: bytes
    payload: bytes
    qos: int


class DropReason(Enum):
    QUEUE_FULL = "queue full"
    REFUSED = "refused by the gateway"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A reading that will not be sent any more."""

    reason: DropReason


class AwayReason(Enum):
    SILENCE = "no answer"
    REFUSED = "refused"
    TOLD = "told to reconnect"


@dataclass(frozen=True, slots=True)
class WentAway:
    """The conversation is over; the client connects again by itself after a pause."""

    reason: AwayReason


@dataclass(frozen=True, slots=True)
class FellAsleep:
    """The gateway knows it. The client wakes by itself, or when it has something to say."""

    for_s: int


@dataclass(frozen=True, slots=True)
class Left:
    """The conversation ended on our own wish."""


Effect = (
    Send
    | Connected
    | Acknowledged
    | Retransmitted
    | Received
    | Dropped
    | WentAway
    | FellAsleep
    | Left
)
