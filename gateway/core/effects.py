"""What the core asks of the shell: work to be done, in order, and what is to be counted and logged.

Imperative effects are work: the shell performs them, in order. Past-tense effects are for the log
and the metrics. What parts of the core tell the engine is in `events.py`.

`Send` and `Transmit` are made for every message. They are not frozen because a frozen `__init__`
costs four times a plain one; nothing changes them after they are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from gateway.core.drop_reasons import Reason
from gateway.core.state_records import AsideRecord, Change, ClientId, State
from gateway.core.values import Peer, Publication, Reading, SubscribeTo
from gateway.frames import Frame

# Work


@dataclass(slots=True)
class Send:
    """Put a frame on the air."""

    peer: Peer
    frame: Frame


@dataclass(slots=True)
class SendDatagram:
    """Put bytes on the air as they are; `peer` is on the link itself, or behind a forwarder."""

    peer: Peer
    datagram: bytes


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Say a frame to the group of a link; `radius` in hops, 0 for the whole network (5.3.9)."""

    link: int
    frame: Frame
    radius: int = 0


@dataclass(slots=True)
class Transmit:
    """Write to the broker: an MQTT packet, or several whole ones."""

    packet: bytes


@dataclass(frozen=True, slots=True)
class DropUpstream:
    """Close the connection to the broker; the link makes a new one after its delay."""

    reason: str


# Handed back to the engine (`durable`) when what they waited for is durable


@dataclass(slots=True)
class HeldFrames:
    """Frames that may go to a client, if `session` still is where they were meant for."""

    client_id: ClientId
    session: Any  # only ever compared: what it is, this layer does not know
    sends: list[Send]


@dataclass(frozen=True, slots=True)
class ConnectSaved:
    """That a client is connected, at `peer`, is durable: it gets CONNACK and what waits for it."""

    client_id: ClientId
    peer: Peer
    has_will: bool = False


@dataclass(frozen=True, slots=True)
class SubscriptionSaved:
    """A client's subscription is durable: it hears from now on."""

    asked: SubscribeTo


@dataclass(frozen=True, slots=True)
class DeliverySaved:
    """What a message for a client waited for is durable: itself, or the number of its topic; with
    `is_released` that the client has received it.
    """

    client_id: ClientId
    position: int
    is_released: bool


@dataclass(slots=True)
class DeliveryComplete:
    """Every client that a message from the broker is for has it, or it is durable here."""

    publication: Publication


@dataclass(frozen=True, slots=True)
class UpstreamReleaseSaved:
    """The broker's PUBREL is on record: PUBCOMP may follow, on the same connection."""

    packet_id: int
    connection: int
    is_known: bool


@dataclass(frozen=True, slots=True)
class ConnectRecorded:
    """That the broker is asked for its session is on record: CONNECT may go, on this transport."""

    transport: int


@dataclass(frozen=True, slots=True)
class ReceiptRecorded:
    """PUBREC of the broker is on record: PUBREL may follow, on the same connection."""

    packet_id: int
    reading: Reading
    connection: int


@dataclass(frozen=True, slots=True)
class ReleaseRecorded:
    """A client's PUBREL is on record: PUBCOMP may follow, and the message id is free again."""

    client_id: ClientId
    message_id: int


@dataclass(frozen=True, slots=True)
class AsideSaved:
    """A reading that was set aside is durable there: the journal need not have it."""

    reading: Reading


#: What is handed back to `Engine.durable` once what it waited for is durable.
Durable = (
    HeldFrames
    | ConnectSaved
    | SubscriptionSaved
    | DeliverySaved
    | DeliveryComplete
    | UpstreamReleaseSaved
    | ConnectRecorded
    | ReceiptRecorded
    | ReleaseRecorded
    | AsideSaved
)


# Work for the journal and the state store


@dataclass(slots=True)
class Store:
    """Write a reading to the journal, then say `stored`; if it cannot be written, `not_stored`.

    `is_queued`: the core keeps it no longer than until then, and will ask for it (`ReadBacklog`).
    """

    reading: Reading
    is_queued: bool = False


@dataclass(slots=True)
class Finish:
    """The journal may forget a reading. Written with the next group; nobody waits for it."""

    reading: Reading


@dataclass(frozen=True, slots=True)
class FinishRun:
    """As `Finish`, for so many readings from this one on."""

    record: int
    count: int


@dataclass(frozen=True, slots=True)
class KeepRecord:
    """The broker has taken a reading, and the journal keeps it: a later run need not send it.
    Written with the next group; no answer waits for it.
    """

    record: int


@dataclass(frozen=True, slots=True)
class Unqueue:
    """The core still has a reading queued on disk in memory, and it goes on: it is not to be read
    back.
    """

    record: int


@dataclass(slots=True)
class RecordReceived:
    """Note in the journal that the broker has received a QoS 2 reading (PUBREC); once that is
    durable, hand `then` to `durable`.
    """

    reading: Reading
    then: Durable


@dataclass(slots=True)
class RecordConnect:
    """Note in the journal that the broker is asked for its session, which may be another than that
    in which it received what is recorded so far; once that is durable, hand `then` to `durable`.
    """

    then: Durable


@dataclass(slots=True)
class RecordRelease:
    """Note in the journal that a client has released a message id (PUBREL); once that is durable,
    hand `then` to `durable`. Without `then` nobody waits for it.
    """

    client_id: ClientId
    message_id: int
    then: Durable | None = None


@dataclass(slots=True)
class ReadBacklog:
    """Read the next readings queued on disk from the journal, then say `backlog` (with none at its
    end).
    """


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Read these, in order, as many as are read at once; then say `read_again`."""

    records: tuple[int, ...]


@dataclass(slots=True)
class Save:
    """Write a change of what outlasts a restart, in order, within `LATER_S` of state/pending.py."""

    change: Change


@dataclass(slots=True)
class WhenSaved:
    """Once everything that was to be saved before this is durable, hand `effects` to `durable`."""

    then: list[Durable]


# For the log and the metrics


@dataclass(frozen=True, slots=True)
class Denied:
    """What the rules of access did not allow; `action`: one of `access/rules.py`."""

    identity: str
    action: str
    topic: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something ended here and was answered as the protocol has it; nobody need act.

    `peer` stands in where no client is known yet. `detail` is for the log, with the numbers.
    `denied`: with FORBIDDEN.
    """

    reason: Reason
    client_id: ClientId | None = None
    detail: str = ""
    peer: Peer | None = None
    count: int = 1
    denied: Denied | None = None


@dataclass(frozen=True, slots=True)
class StateChanged:
    """What a client does is another now: one arrow of `session/states.py`."""

    client_id: ClientId
    before: State
    after: State
    peer: Peer | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Rebound:
    """A sleeper woke up at another address, where it is from now on."""

    client_id: ClientId
    before: Peer
    after: Peer


@dataclass(frozen=True, slots=True)
class IdShared:
    """A client id is in use at two addresses in turn."""

    client_id: ClientId
    before: Peer
    after: Peer


@dataclass(frozen=True, slots=True)
class UpstreamUp:
    """The broker took us. `session_present` is its word on whether it still knew our session."""

    session_present: bool
    resent: int = 0


@dataclass(frozen=True, slots=True)
class UpstreamRefused:
    """The broker said no: in CONNACK, or in a DISCONNECT of its own."""

    reason: str


@dataclass(frozen=True, slots=True)
class UpstreamEndExplained:
    """It is known for what the broker has ended the connection, so the next may come at once."""


@dataclass(frozen=True, slots=True)
class OwnTopicBlocked:
    """The broker ended the connection for a message of the gateway's own: none on this topic is
    sent for a while.
    """

    topic: str


@dataclass(frozen=True, slots=True)
class OwnTopicRefused:
    """The broker does not take a message of the gateway's own at QoS 1; `reason` is its answer."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """A reading that the broker does not take was set aside, for the operator to see."""

    record: AsideRecord


@dataclass(frozen=True, slots=True)
class PropertiesIgnored:
    """The broker sent properties that MQTT 5 does not allow; the first ones of a connection."""

    packet: str
    detail: str


@dataclass(frozen=True, slots=True)
class SubscriptionRefused:
    """The broker will not let us subscribe; the clients that asked hear nothing on this filter."""

    topic_filter: str
    reason: str
    client_ids: tuple[ClientId, ...] = ()


class DiscoveryRole(Enum):
    """The values are labels of the metrics."""

    UNABLE = "unable"  # a reading could not be taken now
    STANDBY = "standby"  # another gateway is there, or may be
    ADVERTISING = "advertising"


@dataclass(frozen=True, slots=True)
class DiscoveryChanged:
    """The gateway begins or ends to say on its links that it is there (6.1)."""

    before: DiscoveryRole
    after: DiscoveryRole
    detail: str = ""


@dataclass(frozen=True, slots=True)
class OwnTopicReceived:
    """A message on a topic that the gateway itself has subscribed to (`MqttOptions.own_filters`).

    `topic`: as the broker has it. `is_retained`: it was retained, at whatever time.
    """

    topic: str
    payload: bytes
    is_retained: bool = False


@dataclass(slots=True)
class ReadingTaken:
    """A reading came, and readings are to be reported (`Engine.report_readings`)."""

    reading: Reading


#: Work for the journal; a program without one gets none (docs/embedding.md).
JournalWork = (
    Store
    | Finish
    | FinishRun
    | KeepRecord
    | Unqueue
    | RecordConnect
    | RecordReceived
    | RecordRelease
    | ReadBacklog
    | ReadAgain
)

#: All that a call of the engine returns, in the order in which it is to be performed.
Effect = (
    Send
    | SendDatagram
    | Broadcast
    | Transmit
    | DropUpstream
    | JournalWork
    | Save
    | WhenSaved
    | Dropped
    | StateChanged
    | Rebound
    | IdShared
    | UpstreamUp
    | UpstreamRefused
    | UpstreamEndExplained
    | OwnTopicBlocked
    | OwnTopicRefused
    | SetAside
    | PropertiesIgnored
    | SubscriptionRefused
    | DiscoveryChanged
    | OwnTopicReceived
    | ReadingTaken
)
