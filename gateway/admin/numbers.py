"""The gateway in numbers at one moment: the daemon counts, metrics, status and page show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from gateway.admin.aside import AsideNumbers
from gateway.core.alarm_names import AlarmName
from gateway.core.effects import DiscoveryRole
from gateway.core.state_records import State
from gateway.presence.numbers import PresenceNumbers


class Condition(Enum):
    """How what writes to the disk is doing; the values are labels of the metrics."""

    OK = "ok"
    DEGRADED = "degraded"  # a write failed and was made elsewhere, or waits to be tried again
    FULL = "full"
    FAILED = "failed"


class Cause(Enum):
    """Where the reason of a standstill is: in the gateway itself, or outside it."""

    INSIDE = "inside"
    DISK = "disk"
    BROKER = "broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """`what` has not moved for longer than it may (gateway/app/watch.py)."""

    name: AlarmName
    cause: Cause
    what: str
    unmoved_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedId:
    """A client id that is in use at two addresses in turn."""

    client: str
    one: str
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineNumbers:
    """What a serial line has beside other links. `frames` are received ones, by what they were:
    good, or why they were no messages. `problem`: why the port is not available, or what is odd.
    `released_s`: for how long other programs may have it.
    """

    is_open: bool
    problem: str | None
    opened: int
    lost: int
    bytes_received: int
    bytes_sent: int
    waiting_bytes: int
    frames: Mapping[str, int]
    resyncs: int
    chatter_bytes: int
    released_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkNumbers:
    """One listening link. `name` comes from the configuration, never from a peer. Of a serial line
    messages are counted as datagrams.
    """

    name: str
    listening_on: str
    datagrams_received: int
    datagrams_sent: int
    send_failures: int
    receive_buffer_drops: int
    truncated: int
    group_joined: bool | None = None  # None for a link without a multicast group
    line: LineNumbers | None = None  # of a serial line
    lost_address: str | None = None  # that the machine has given up its address, in a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalNumbers:
    """The readings on disk. Without anything said: a journal in which nothing has happened.

    `depth` readings wait for the broker; of these `parked` are on disk only. `fill` is how much of
    the budget new readings cannot use, from 0 to 1. `oldest_age_s` and the `sync_s_` (of the last
    1,000 calls of fdatasync) are None while there is none. `in_per_s` and `out_per_s` are readings
    stored and finished a second in the last minute, None before there are two looks at it. `error`
    is the last one, in words, while the condition is not OK.
    """

    condition: Condition = Condition.OK
    error: str | None = None
    depth: int = 0
    parked: int = 0
    used_bytes: int = 0
    budget_bytes: int = 0
    fill: float = 0.0
    oldest_age_s: float | None = None
    segments: int = 0
    damaged: int = 0
    lost: int = 0
    out_of_reach: int = 0  # in files that are gone or cannot be opened
    backlog_problem: str | None = None  # why
    stored: int = 0
    finished: int = 0
    dropped_oldest: int = 0
    groups: int = 0
    syncs: int = 0
    bytes_written: int = 0
    failures: int = 0
    sync_s_p50: float | None = None
    sync_s_p99: float | None = None
    sync_s_worst: float | None = None
    sync_s_total: float = 0.0
    syncs_timed: int = 0  # of which that is the sum
    in_per_s: float | None = None
    out_per_s: float | None = None

    @property
    def drain_s(self) -> float | None:
        """When nothing would wait any more, at the rates of the last minute; None for never."""
        if not self.depth:
            return 0.0
        if self.in_per_s is None or self.out_per_s is None or self.out_per_s <= self.in_per_s:
            return None
        return self.depth / (self.out_per_s - self.in_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestNumbers:
    """Readings that are kept until they are ingested, if `is_on`.

    `oldest_age_s` is since the broker took the oldest of them, `heard_age_s` since the last receipt
    in this connection; None for none. `refusal`: the broker's, of the subscription to receipts.
    `unkept` readings went to the broker alone.
    """

    is_on: bool = False
    timeout_s: float = 0.0
    kept: int = 0
    oldest_age_s: float | None = None
    heard_age_s: float | None = None
    refusal: str | None = None
    ingested: int = 0
    sent_again: int = 0
    receipts: int = 0
    bad_receipts: int = 0
    unkept: int = 0
    given_up: int = 0
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateNumbers:
    """What outlasts a restart beside readings: rows that wait to be written, and the database.
    `lost`: what this start did not find of what was saved.
    """

    condition: Condition = Condition.OK
    error: str | None = None
    pending_rows: int = 0
    commits: int = 0
    failures: int = 0
    file_bytes: int = 0
    lost: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryNumbers:
    """Of the limit that comes first, `place` says whose; 0 of 0 where none is known."""

    is_scarce: bool = False
    used_bytes: int = 0
    limit_bytes: int = 0
    place: str = ""


@dataclass(frozen=True, slots=True)
class LogNumbers:
    """`blocked_s`: for how long nobody has read the log, None while it is read. `error`: why the
    last line could not be written, None if it was.
    """

    lost_lines: int = 0
    blocked_s: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What begins with `upstream_` is about the connection to the broker.

    `upstream_state`: `connected to mqtt://host:1883`, or what it waits for and why. Numbers by QoS
    are for 0, 1 and 2. Frames are counted by the name of their kind, such as `PUBLISH`. Those that
    are overdue are active or asleep as well. `permit_left_s`: for how long new clients that are
    in no list may come in; None where all may. Rates are of the last minute, None before there are
    two looks. `said`: messages of the gateway's own, as presence is. `unmoved_s`: of each kind of
    standstill, how long the oldest that waits has not moved, within its bound or beyond it.
    `configuration_doubt`: which file of it cannot be read for a reload.
    `slow_callbacks`: by name.
    """

    uptime_s: float
    clients_by_state: Mapping[State, int]
    unproven_clients: int
    clients_overdue: int
    subscriptions: int
    covering_subscriptions: int
    retained_messages: int
    retained_bytes: int
    upstream_connected: bool
    upstream_state: str
    upstream_connects: int
    upstream_in_flight: int
    upstream_waiting: int
    upstream_waiting_bytes: int
    upstream_bytes_in: int
    upstream_bytes_out: int
    readings_by_qos: tuple[int, int, int]
    deliveries_by_qos: tuple[int, int, int]
    frames_received: Mapping[str, int]
    frames_sent: Mapping[str, int]
    outbox_messages: int
    links: tuple[LinkNumbers, ...]
    event_loop_lag_s: float
    pauses: int = 0  # times in which the process did not run
    pause_s: float = 0.0  # all of them
    discovery: DiscoveryRole = DiscoveryRole.UNABLE
    readings_per_s: float | None = None
    deliveries_per_s: float | None = None
    said: int = 0
    drain_paused: bool = False
    permit_left_s: float | None = None
    shared_ids: Sequence[SharedId] = ()
    permitted_clients: int = 0
    journal: JournalNumbers = JournalNumbers()
    state: StateNumbers = StateNumbers()
    memory: MemoryNumbers = MemoryNumbers()
    ingest: IngestNumbers = IngestNumbers()
    aside: AsideNumbers = field(default_factory=AsideNumbers)
    notices: PresenceNumbers = field(default_factory=PresenceNumbers)
    standstills: tuple[Standstill, ...] = ()
    unmoved_s: Mapping[AlarmName, float] = field(default_factory=dict)
    configuration_doubt: str | None = None
    log: LogNumbers = LogNumbers()
    slow_callbacks: Mapping[str, int] = field(default_factory=dict)
