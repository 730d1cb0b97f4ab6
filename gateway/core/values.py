"""Values that several parts of the core and the shell pass on: addresses, messages, readings."""

from __future__ import annotations

from dataclasses import dataclass, field
from zlib import crc32

from gateway.core.message_expiry import Expiry
from gateway.core.state_records import ClientId


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
    expiry: Expiry | None = None  # None: it is never over


@dataclass(slots=True, eq=False)
class Reading:
    """A reading to be published; its session then gets `acknowledged` or `refused`.

    Compared by identity: a retry with equal contents is another reading until a session says
    otherwise. `received_at` is in the core's monotonic seconds. `sequence` is -1 until the reading
    is taken on; QoS 0 readings never get one. With it come `epoch`, the life of the gateway that
    took it on, `packet_id`, under which it goes to the broker, and `unix_ms`, the receive time as
    the wall clock had it then: a repeat says the same, also after a restart. `machine_at`: when it
    came by the monotonic clock of the machine, if a file says so; 0 if `received_at` does, and
    negative if nothing tells, so that `unix_ms` stays what it is. `upstream_qos`
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
    machine_at: float = 0.0


@dataclass(frozen=True, slots=True)
class KeptRecords:
    """So many readings of an epoch that a previous run kept: from this sequence and record on."""

    epoch: int
    first: int
    record: int
    count: int


@dataclass(frozen=True, slots=True)
class SubscribeTo:
    """Let a client hear what matches `topic_filter`; then say `subscribed` to its session."""

    client_id: ClientId
    topic_filter: str
    qos: int
    message_id: int


@dataclass(slots=True)
class Publication:
    """A message from the broker. Answer with `Upstream.acknowledge` once it is durably accepted.

    `is_replay`: the broker had retained it before we subscribed; else it is a live publication.
    `copies`: how many clients are to get it and have neither acknowledged it yet nor lost it to a
    limit. `connection`: the one it came on (last), on which alone it may be acknowledged;
    `is_safe`: it is durably accepted, but that connection was gone.
    `unsaved`: positions, by client, of copies to be saved later; None: each is saved as it comes.
    `expiry_s`: what is left of the time that its publisher gave it, if it did.
    """

    message: Message
    packet_id: int
    is_replay: bool = False
    copies: int = field(default=0, compare=False)
    connection: int = field(default=0, compare=False)
    is_safe: bool = field(default=False, compare=False)
    unsaved: dict[ClientId, int] | None = field(default=None, compare=False)
    expiry_s: int | None = None


def contents_of(topic: str, payload: bytes, qos: int) -> int:
    """A checksum by which a copy is known, the same in each run of the gateway; 32 bits."""
    return crc32(payload + b"\x00\x01\x02"[qos : qos + 1], crc32(topic.encode()))
