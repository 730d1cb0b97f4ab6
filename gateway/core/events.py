"""What parts of the core tell the engine, which acts on it at once (`Engine._apply`).

Parts never call each other up: each returns what has happened, or is to happen, and the engine
takes that to the part that it concerns. A `Reading` (values.py) is an event as well: a client has
published it.

`Reading`, `ReadingsAcknowledged` and `Publication` are made for every message, so they are not
frozen (see effects.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Durable, Effect
from gateway.core.state_records import ClientId
from gateway.core.values import Publication, Reading, SubscribeTo

# From sessions


@dataclass(slots=True)
class SessionOutput:
    """What a session returned: frames in it that promise what is not durable yet are held, and its
    timer is set.
    """

    client_id: ClientId
    outputs: list[Output]


@dataclass(slots=True)
class FormerOutput:
    """The same, of a former session beside which its client is said to be elsewhere."""

    client_id: ClientId
    outputs: list[Output]


@dataclass(slots=True)
class PublishWill:
    """A client is lost: its will must reach the broker, whatever happens to us."""

    will: Reading


@dataclass(frozen=True, slots=True)
class UnsubscribeFrom:
    client_id: ClientId
    topic_filter: str


# From the MQTT session


@dataclass(slots=True)
class ReadingsAcknowledged:
    """The broker took these readings for good (PUBACK for QoS 1, PUBCOMP for QoS 2), in order."""

    readings: list[Reading]


@dataclass(frozen=True, slots=True)
class ReadingRefused:
    """A QoS 1 or 2 reading will not reach the broker; its sensor shall hear `return_code`."""

    reading: Reading
    return_code: int
    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ReadingSetAside:
    """The broker ends the connection for a reading, or for those like it: it is not sent."""

    reading: Reading
    detail: str


@dataclass(frozen=True, slots=True)
class SubscriptionGranted:
    """The broker granted our subscription to one filter."""

    topic_filter: str


@dataclass(frozen=True, slots=True)
class FilterRefused:
    """The broker refused our subscription to one filter."""

    topic_filter: str
    reason: str


@dataclass(frozen=True, slots=True)
class NamesNumbered:
    """A client that has many topic names has further ones."""

    client_id: ClientId


#: What the engine takes to the part that it concerns; the shell never gets it.
Event = (
    Reading
    | SessionOutput
    | FormerOutput
    | PublishWill
    | SubscribeTo
    | UnsubscribeFrom
    | ReadingsAcknowledged
    | ReadingRefused
    | ReadingSetAside
    | Publication
    | SubscriptionGranted
    | FilterRefused
    | NamesNumbered
    | Durable
)
#: What a part of the core returns to the engine.
Output = Effect | Event
