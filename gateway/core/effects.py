"""The vocabulary between core and shell.

Imperative effects are work: the shell (or, for `Reading`, `PublishWill`, `SubscribeTo` and
`UnsubscribeFrom`, the engine) performs them, in order. Past-tense effects are news: the shell
counts and logs them.

`Send`, `Transmit`, `Reading`, `ReadingsAcknowledged` and `Publication` are made for every message.
They are not frozen because a frozen `__init__` costs four times a plain one; nothing changes them
after they are made, but for what the upstream session gives a `Reading` once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from zlib import crc32

from gateway.core.drop_reasons import Reason as Reason
from gateway.core.process_pauses import BEAT_S as BEAT_S
from gateway.core.process_pauses import LATE_S as LATE_S
from gateway.core.process_pauses import ProcessPauses as ProcessPauses
from gateway.core.state_records import Change
from gateway.core.state_records import ClientId as ClientId
from gateway.core.state_records import State as State
from gateway.frames import Frame


@dataclass(frozen=True, slots=True)
class Peer:
    """A client's link and raw address there, or a forwarder's node (addresses.py)."""

    link: int
    address: bytes


@dataclass(slots=True)
class Message:
    """Application data on its way to clients, as the broker published it."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


# Work


@dataclass(slots=True)
class Send:
    """Put a frame on the air."""

    peer: Peer
    frame: Frame


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


@dataclass(slots=True, eq=False)
class Reading:
    """A reading to be published; its session then gets `acknowledged` or `refused`.

    Compared by identity: a retry with equal contents is another reading until a session says
    otherwise. `received_at` is in the core's monotonic seconds. `sequence` is -1 until the reading
    is taken on; QoS 0 readings never get one. With it come `epoch`, the life of the gateway that
    took it on, `packet_id`, under which it goes to the broker, and `unix_ms`, the receive time as
    the wall clock had it then: a repeat says the same, also after a restart. `upstream_qos`
    is what the broker gets: not more than it takes. `record` is its number in the journal, -1 for
    one that is not there. `again`: how often it was read back because nobody had ingested it.
    """

    client_id: ClientId
    topic: str
    payload: bytes
    qos: int
    retain: bool
    topic_id: int
    message_id: int
    received_at: float
    sequence: int = -1
    unix_ms: int = 0
    upstream_qos: int = 0
    epoch: int = 0
    packet_id: int = 0
    record: int = -1
    again: int = 0


@dataclass(slots=True)
class PublishWill:
    """A client is lost: its will must reach the broker, whatever happens to us."""

    will: Reading


@dataclass(frozen=True, slots=True)
class SubscribeTo:
    """Let a client hear what matches `topic_filter`; then say `subscribed` to its session."""

    client_id: ClientId
    topic_filter: str
    qos: int
    message_id: int


@dataclass(frozen=True, slots=True)
class UnsubscribeFrom:
    client_id: ClientId
    topic_filter: str


# Work for what must survive power loss


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


@dataclass(slots=True)
class RecordReceived:
    """Note in the journal that the broker has received a QoS 2 reading (PUBREC); once that is
    durable, hand `then` to `durable`.
    """

    reading: Reading
    then: Effect


@dataclass(slots=True)
class RecordConnect:
    """Note in the journal that the broker is asked for its session, which may be another than that
    in which it received what is recorded so far; once that is durable, hand `then` to `durable`.
    """

    then: Effect


@dataclass(slots=True)
class RecordRelease:
    """Note in the journal that a client has released a message id (PUBREL); once that is durable,
    hand `then` to `durable`. Without `then` nobody waits for it.
    """

    client_id: ClientId
    message_id: int
    then: Effect | None = None


@dataclass(slots=True)
class ReadBacklog:
    """Read the next parked readings from the journal, then say `backlog` (with none at its end)."""


@dataclass(slots=True)
class Save:
    """Write a change of what outlasts a restart, in order, within `LATER_S` of state/pending.py."""

    change: Change


@dataclass(slots=True)
class WhenSaved:
    """Once everything that was to be saved before this is durable, hand `effects` to `durable`."""

    effects: list[Effect]


# News


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something ended here and was answered as the protocol has it; nobody need act.

    `peer` stands in where no client is known yet. `detail` is for the log, with the numbers.
    """

    reason: Reason
    client_id: ClientId | None = None
    detail: str = ""
    peer: Peer | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class StateChanged:
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
class UpstreamUp:
    """The broker took us. `session_present` is its word on whether it still knew our session."""

    session_present: bool
    resent: int = 0


@dataclass(frozen=True, slots=True)
class UpstreamRefused:
    """The broker said no: in CONNACK, or in a DISCONNECT of its own."""

    reason: str


@dataclass(frozen=True, slots=True)
class SubscriptionRefused:
    """The broker will not let us subscribe; the clients that asked hear nothing on this filter."""

    topic_filter: str
    reason: str
    client_ids: tuple[ClientId, ...] = ()


# Between the upstream session and the engine


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


@dataclass(slots=True)
class Publication:
    """A message from the broker. Answer with `Upstream.acknowledge` once it is in good hands.

    `is_replay`: the broker had retained it before we subscribed; else it is a live publication.
    `copies`: how many clients are to get it and have neither acknowledged it yet nor lost it to a
    limit. `connection`: the one it came on (last), on which alone it may be acknowledged;
    `is_safe`: it is in good hands, but that connection was gone.
    `unsaved`: positions, by client, of copies to be saved later; None: each is saved as it comes.
    """

    message: Message
    packet_id: int
    is_replay: bool = False
    copies: int = field(default=0, compare=False)
    connection: int = field(default=0, compare=False)
    is_safe: bool = field(default=False, compare=False)
    unsaved: dict[ClientId, int] | None = field(default=None, compare=False)


@dataclass(slots=True)
class DeliveryComplete:
    """Every client that a message from the broker is for has it, or it is durable here."""

    publication: Publication


@dataclass(frozen=True, slots=True)
class SubscriptionGranted:
    """The broker granted our subscription to one filter."""

    topic_filter: str


# What the core says to itself when something is durable


@dataclass(slots=True)
class HeldFrames:
    """Frames that may go to a client, if `session` still is where they were meant for."""

    client_id: ClientId
    session: Any  # only ever compared: what it is, this layer does not know
    sends: list[Effect]


@dataclass(frozen=True, slots=True)
class ConnectSaved:
    """That a client is connected, at `peer`, is durable: it hears CONNACK and what waits for it."""

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


@dataclass(frozen=True, slots=True)
class UpstreamReleaseSaved:
    """The broker's PUBREL is on record: PUBCOMP may follow, on the same connection."""

    packet_id: int
    connection: int
    is_known: bool


# About the gateway as a whole


class DiscoveryRole(Enum):
    """The values are labels of the metrics."""

    UNABLE = "unable"  # a reading could not be taken now
    STANDBY = "standby"  # another gateway is there, or may be
    ADVERTISING = "advertising"


@dataclass(frozen=True, slots=True)
class DiscoveryChanged:
    before: DiscoveryRole
    after: DiscoveryRole
    detail: str = ""


@dataclass(frozen=True, slots=True)
class OwnTopicReceived:
    """The broker brought the topic that the gateway itself listens to."""

    payload: bytes


# To the journal, by the numbers that readings have there (`record`)


@dataclass(frozen=True, slots=True)
class KeepRecord:
    """The broker has taken a reading, and the journal keeps it: a later run need not send it.
    Written with the next group; no answer waits for it.
    """

    record: int


@dataclass(frozen=True, slots=True)
class Unqueue:
    """The core has a parked reading in memory still, and it goes on: it is not to be read back."""

    record: int


@dataclass(frozen=True, slots=True)
class FinishRun:
    """As `Finish`, for so many readings from this one on."""

    record: int
    count: int


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Read these, in order, as many as are read at once; then say `read_again`."""

    records: tuple[int, ...]


ByRecord = KeepRecord | Unqueue | FinishRun | ReadAgain


@dataclass(frozen=True, slots=True)
class KeptRecords:
    """So many readings of an epoch that a previous run kept: from this sequence and record on."""

    epoch: int
    first: int
    record: int
    count: int


Effect = (
    Send
    | Broadcast
    | Transmit
    | DropUpstream
    | Reading
    | PublishWill
    | SubscribeTo
    | UnsubscribeFrom
    | Store
    | Finish
    | ByRecord
    | RecordConnect
    | RecordReceived
    | RecordRelease
    | ReadBacklog
    | Save
    | WhenSaved
    | Dropped
    | StateChanged
    | Rebound
    | UpstreamUp
    | UpstreamRefused
    | SubscriptionRefused
    | DiscoveryChanged
    | OwnTopicReceived
    | ReadingsAcknowledged
    | ReadingRefused
    | ConnectRecorded
    | ReceiptRecorded
    | ReleaseRecorded
    | Publication
    | DeliveryComplete
    | SubscriptionGranted
    | HeldFrames
    | ConnectSaved
    | SubscriptionSaved
    | DeliverySaved
    | UpstreamReleaseSaved
)


def contents_of(topic: str, payload: bytes, qos: int) -> int:
    """A checksum by which a copy is known, the same in every life of the gateway; 32 bits."""
    return crc32(payload + b"\x00\x01\x02"[qos : qos + 1], crc32(topic.encode()))
