"""What outlasts a restart of the gateway beside its readings, as rows.

The core says what changed; `state/` keeps it. A row replaces the one with the same key before it,
and what is "gone" takes its row away. Readings are in the journal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NewType

ClientId = NewType("ClientId", str)

# Readings go to the broker under the packet ids 1..65000, which follow from their sequences.
PACKET_IDS = 65_000


class State(Enum):
    """Where a client is in its conversation; the arrows are in `session/states.py`."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    ACTIVE = "active"
    ASLEEP = "asleep"
    AWAKE = "awake"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class WillRecord:
    topic: str
    payload: bytes
    qos: int
    retain: bool


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A client, where it is and what it declared. `link` is the number of its link in this life,
    -1 for one that is no more; `state/` keeps the link's name. `next_topic_id` and `next_position`:
    from here on no number has been used, but those of its topics and messages.
    """

    client_id: ClientId
    clean: bool
    link: int
    address: bytes
    state: State
    keep_alive_s: int = 0
    sleep_s: int = 0
    will: WillRecord | None = None
    next_topic_id: int = 1
    next_position: int = 0


@dataclass(frozen=True, slots=True)
class SessionDeleted:
    """The session, and every row of its client below."""

    client_id: ClientId


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A normal topic id of one client."""

    client_id: ClientId
    topic_id: int
    name: str


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """`topic_id_type` and `topic_id`: how the client spells it; 0 and 0 by its name."""

    client_id: ClientId
    topic_filter: str
    qos: int
    topic_id_type: int = 0
    topic_id: int = 0


@dataclass(frozen=True, slots=True)
class SubscriptionDeleted:
    client_id: ClientId
    topic_filter: str


@dataclass(frozen=True, slots=True)
class ExpiryRecord:
    """Of a message that is not for ever: it had `left_ms` when the gateway had run for `run_ms` in
    all its runs, and the wall clock said `unix_ms`; 0 where that was not set.
    """

    left_ms: int
    run_ms: int
    unix_ms: int


@dataclass(frozen=True, slots=True)
class RunTimeRecord:
    """How long the gateway has run, in all its runs; written only where it is needed."""

    run_ms: int


@dataclass(slots=True)  # not frozen, like what is made for every message in effects.py
class MessageRecord:
    """A QoS 1 or 2 message that its client has not acknowledged; `position` is its place in the
    client's queue. `is_released`: the client has received it (PUBREC), only PUBCOMP is missing.
    """

    client_id: ClientId
    position: int
    topic: str
    payload: bytes
    qos: int
    retain: bool = False
    is_released: bool = False
    expiry: ExpiryRecord | None = None


@dataclass(slots=True)
class MessageDeleted:
    """`expires`: its record had an expiry."""

    client_id: ClientId
    position: int
    expires: bool = False


@dataclass(frozen=True, slots=True)
class RetainedRecord:
    """`is_exact`: it was published at this QoS, not at a higher one."""

    topic: str
    payload: bytes
    qos: int
    is_exact: bool = True
    expiry: ExpiryRecord | None = None


@dataclass(frozen=True, slots=True)
class RetainedDeleted:
    topic: str


@dataclass(frozen=True, slots=True)
class PacketRecord:
    """A QoS 2 message from the broker that is durably accepted here and waits for PUBREL.

    `contents` is a checksum of its topic and payload, 32 bits; `brought_by` the identifier of the
    subscription of ours for which it came live (the first, if it came for several), else 0.
    """

    packet_id: int
    contents: int
    brought_by: int = 0


@dataclass(frozen=True, slots=True)
class PacketDeleted:
    packet_id: int


@dataclass(frozen=True, slots=True)
class PacketsDeleted:
    """All of them: the broker began a new session."""


@dataclass(frozen=True, slots=True)
class FilterRecord:
    """A filter that the broker may have from us, without the topic prefix."""

    topic_filter: str


@dataclass(frozen=True, slots=True)
class FilterDeleted:
    topic_filter: str


@dataclass(frozen=True, slots=True)
class DueWillRecord:
    """The will of a client that is lost, as long as neither journal nor broker has it; with the
    delivery tag and packet id that it got, so that a repeat has the same. One for each client.
    """

    client_id: ClientId
    topic: str
    payload: bytes
    qos: int
    retain: bool
    epoch: int
    sequence: int
    packet_id: int
    unix_ms: int


@dataclass(frozen=True, slots=True)
class DueWillDeleted:
    client_id: ClientId


@dataclass(frozen=True, slots=True)
class PermitRecord:
    """A client that is in no list of the configuration and was let in by the operator; it stays
    permitted when its session is over.
    """

    client_id: ClientId


@dataclass(frozen=True, slots=True)
class PermitDeleted:
    client_id: ClientId


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """A client that came in while joining was open, and may do nothing until the operator approves
    of it.
    """

    client_id: ClientId


@dataclass(frozen=True, slots=True)
class WaitingDeleted:
    client_id: ClientId


@dataclass(frozen=True, slots=True)
class AsideRecord:
    """A reading that the broker does not take, set aside at `set_aside_ms` (Unix milliseconds)
    because of `reason`; its delivery tag is from `epoch` to `unix_ms`.
    """

    number: int
    client_id: ClientId
    topic: str
    payload: bytes
    qos: int
    retain: bool
    epoch: int
    sequence: int
    packet_id: int
    unix_ms: int
    set_aside_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class AsideDeleted:
    number: int


@dataclass(frozen=True, slots=True)
class ProtectionRecord:
    """Of one device and key epoch, with protected packets: see `Memory` of protection/channel.py.
    Counters are 32 bits, series 16; `tag_bytes` fits the scheme.
    """

    sender_id: bytes
    epoch: int
    series: int
    next_counter: int
    received_series: int
    bound: int
    scheme: int = 0
    tag_bytes: int = 16


@dataclass(frozen=True, slots=True)
class ProtectionDeleted:
    sender_id: bytes
    epoch: int


#: A row that is written, or one that is gone.
Change = (
    SessionRecord
    | SessionDeleted
    | TopicRecord
    | SubscriptionRecord
    | SubscriptionDeleted
    | MessageRecord
    | MessageDeleted
    | RetainedRecord
    | RetainedDeleted
    | PacketRecord
    | PacketDeleted
    | PacketsDeleted
    | FilterRecord
    | FilterDeleted
    | DueWillRecord
    | DueWillDeleted
    | PermitRecord
    | PermitDeleted
    | WaitingRecord
    | WaitingDeleted
    | AsideRecord
    | AsideDeleted
    | RunTimeRecord
    | ProtectionRecord
    | ProtectionDeleted
)


@dataclass(slots=True)
class ClientRecord:
    """All rows of one client, in the order of their keys."""

    session: SessionRecord
    topics: list[TopicRecord]
    subscriptions: list[SubscriptionRecord]
    messages: list[MessageRecord]


@dataclass(slots=True)
class StateRecords:
    """All that a previous run of the gateway left."""

    clients: list[ClientRecord]
    retained: list[RetainedRecord]
    packets: list[PacketRecord]
    filters: list[str]
    due_wills: list[DueWillRecord] = field(default_factory=list)
    permits: list[ClientId] = field(default_factory=list)
    waiting: list[ClientId] = field(default_factory=list)
    aside: list[AsideRecord] = field(default_factory=list)
    run_ms: int = 0
    protection: list[ProtectionRecord] = field(default_factory=list)


@dataclass(slots=True)
class Exchanges:
    """What the journal knows of one client's readings: `unreleased` QoS 2 message ids and their
    contents, `recent` ones with how long ago (seconds) they were received. The oldest first.
    """

    unreleased: list[tuple[int, int]]
    recent: list[tuple[int, int, float]]
