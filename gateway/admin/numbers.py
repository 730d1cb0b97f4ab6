"""The gateway in numbers at one moment: status, page, alarms and metrics show them.

Each number is declared once: its name and type, where it is read (gateway/admin/snapshot.py), and
the metrics that are made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from gateway.admin.aside import AsideNumbers
from gateway.admin.metrics.metric import (
    Kind,
    Metric,
    Samples,
    counter,
    declared,
    exposed,
    gauge,
)
from gateway.core.alarm_names import AlarmName
from gateway.core.effects import DiscoveryRole
from gateway.core.state_records import State
from gateway.presence.numbers import PresenceNumbers

if TYPE_CHECKING:
    from gateway.admin.snapshot import JournalLook, Look

Value = TypeVar("Value")


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


# How numbers are exposed


def number(
    read: Callable[[Look], Value],
    *metrics: Metric[Value],
    default: Any = MISSING,
    default_factory: Any = MISSING,
) -> Value:
    """A field of Numbers, with where it is read; a default is for those that are off."""
    return declared(read, metrics, default, default_factory)


def of_journal(
    default: Value, read: Callable[[JournalLook], Value], *metrics: Metric[Value]
) -> Value:
    return declared(read, metrics, default)


def by_qos(counts: Sequence[int]) -> tuple[int, int, int]:
    return counts[0], counts[1], counts[2]


def by_kind(counts: Mapping[type, int]) -> dict[str, int]:
    return {kind.__name__.upper(): count for kind, count in counts.items()}


def or_zero(seconds: float | None) -> float:
    return seconds or 0.0


def of_condition(name: str, help_: str) -> Metric[Condition]:
    """1 for the condition that holds, 0 for the others."""

    def samples(holds: Condition) -> Samples:
        return [((condition.value,), condition is holds) for condition in Condition]

    return Metric(name, Kind.GAUGE, help_, ("condition",), samples)


def of_qos(name: str, help_: str) -> Metric[tuple[int, int, int]]:
    def samples(counts: tuple[int, int, int]) -> Samples:
        return [((str(qos),), count) for qos, count in enumerate(counts)]

    return Metric(name, Kind.COUNTER, help_, ("qos",), samples)


def of_links(
    name: str, help_: str, value: Callable[[LinkNumbers], float]
) -> Metric[Sequence[LinkNumbers]]:
    def samples(links: Sequence[LinkNumbers]) -> Samples:
        return [((link.name,), value(link)) for link in links]

    return Metric(name, Kind.COUNTER, help_, ("link",), samples)


def of_sockets(
    name: str, help_: str, value: Callable[[LinkNumbers], float]
) -> Metric[Sequence[LinkNumbers]]:
    """None for serial lines."""

    def samples(links: Sequence[LinkNumbers]) -> Samples:
        return [((link.name,), value(link)) for link in links if link.line is None]

    return Metric(name, Kind.COUNTER, help_, ("link",), samples)


def of_lines(
    name: str, kind: Kind, help_: str, value: Callable[[LineNumbers], float]
) -> Metric[Sequence[LinkNumbers]]:
    """None for links that are no serial lines."""

    def samples(links: Sequence[LinkNumbers]) -> Samples:
        return [((link.name,), value(link.line)) for link in links if link.line is not None]

    return Metric(name, kind, help_, ("link",), samples)


def groups_joined(links: Sequence[LinkNumbers]) -> Samples:
    """None for links without a group."""
    return [((link.name,), link.group_joined) for link in links if link.group_joined is not None]


def line_frames(links: Sequence[LinkNumbers]) -> Samples:
    for link in links:
        if link.line is not None:
            for result, count in link.line.frames.items():
                yield (link.name, result), count


def datagrams(links: Sequence[LinkNumbers]) -> Samples:
    return both_ways(
        {link.name: link.datagrams_received for link in links},
        {link.name: link.datagrams_sent for link in links},
    )


def line_bytes(links: Sequence[LinkNumbers]) -> Samples:
    lines = {link.name: link.line for link in links if link.line is not None}
    return both_ways(
        {name: line.bytes_received for name, line in lines.items()},
        {name: line.bytes_sent for name, line in lines.items()},
    )


def both_ways(received: Mapping[str, int], sent: Mapping[str, int]) -> Samples:
    for direction, counts in (("received", received), ("sent", sent)):
        for name, count in sorted(counts.items()):
            yield (name, direction), count


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalNumbers:
    """The readings on disk. Without anything said: a journal in which nothing has happened.

    `depth` readings wait for the broker; of these `parked` are on disk only. `fill` is how much of
    the budget new readings cannot use, from 0 to 1. `oldest_age_s` and the `sync_s_` (of the last
    1,000 calls of fdatasync) are None while there is none. `in_per_s` and `out_per_s` are readings
    stored and finished a second in the last minute, None before there are two looks at it. `error`
    is the last one, in words, while the condition is not OK.
    """

    # fmt: off
    condition: Condition = of_journal(
        Condition.OK, lambda look: Condition(look.found.state.value),
        of_condition("tidegate_journal_condition",
                     "1 for the condition of the journal, 0 for the others"))
    error: str | None = of_journal(None, lambda look: look.error)
    depth: int = of_journal(
        0, lambda look: look.found.depth,
        gauge("tidegate_journal_readings", "Readings on disk that wait for the broker"))
    parked: int = of_journal(
        0, lambda look: look.found.queued,
        gauge("tidegate_journal_parked_readings",
              "Of these, readings that are on disk only and will be read back"))
    used_bytes: int = of_journal(
        0, lambda look: look.found.bytes,
        gauge("tidegate_journal_used_bytes", "Size of the segments in use"))
    budget_bytes: int = of_journal(
        0, lambda look: look.found.bytes_max,
        gauge("tidegate_journal_budget_bytes", "What the segments may take; see journal.size_max"))
    fill: float = of_journal(
        0.0, lambda look: look.found.fill,
        gauge("tidegate_journal_fill_ratio",
              "How much of the budget new readings cannot use, from 0 to 1"))
    oldest_age_s: float | None = of_journal(
        None, lambda look: look.oldest_age_s,
        gauge("tidegate_journal_oldest_age_seconds",
              "Age of the oldest reading that waits, 0 for none", or_zero))
    segments: int = of_journal(
        0, lambda look: look.found.segments,
        gauge("tidegate_journal_segments", "Segment files in use"))
    damaged: int = of_journal(
        0, lambda look: look.found.damaged,
        counter("tidegate_journal_damages_total",
                "Damaged places found in segments, which are kept as *.damaged"))
    lost: int = of_journal(
        0, lambda look: look.found.lost,
        counter("tidegate_journal_lost_total", "Readings on disk that could not be read back"))
    out_of_reach: int = of_journal(  # in files that are gone or cannot be opened
        0, lambda look: look.found.out_of_reach,
        gauge("tidegate_journal_out_of_reach_readings",
              "Readings on disk whose file is gone or cannot be opened; tried each second"))
    backlog_problem: str | None = of_journal(  # why
        None, lambda look: look.found.backlog_problem or None)
    stored: int = of_journal(
        0, lambda look: look.found.readings,
        counter("tidegate_journal_stored_total", "Readings made durable"))
    finished: int = of_journal(
        0, lambda look: look.found.finished,
        counter("tidegate_journal_finished_total", "Readings that the journal may forget"))
    dropped_oldest: int = of_journal(
        0, lambda look: look.found.dropped,
        counter("tidegate_journal_dropped_oldest_total",
                "Readings given up for newer ones; see journal.when_full"))
    groups: int = of_journal(
        0, lambda look: look.found.groups,
        counter("tidegate_journal_groups_total", "Groups of records written together"))
    syncs: int = of_journal(
        0, lambda look: look.found.syncs,
        counter("tidegate_journal_syncs_total", "Calls of fdatasync"))
    bytes_written: int = of_journal(
        0, lambda look: look.found.bytes_written,
        counter("tidegate_journal_written_bytes_total", "Bytes written to segments"))
    failures: int = of_journal(
        0, lambda look: look.found.failures,
        counter("tidegate_journal_failures_total", "Writes and calls of fdatasync that failed"))
    # fmt: on
    # The sync_s_ are one metric: OF_SEVERAL.
    sync_s_p50: float | None = of_journal(None, lambda look: look.sync_s[0])
    sync_s_p99: float | None = of_journal(None, lambda look: look.sync_s[1])
    sync_s_worst: float | None = of_journal(None, lambda look: look.sync_s[2])
    sync_s_total: float = of_journal(0.0, lambda look: look.sync_times.total_s)
    syncs_timed: int = of_journal(0, lambda look: look.sync_times.count)  # of which that is the sum
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
    # fmt: off
    kept: int = exposed(
        0, gauge("tidegate_ingest_kept_readings",
                 "Readings that the broker has taken and no ingest has acknowledged; see "
                 "journal.keep_until_ingested"))
    oldest_age_s: float | None = exposed(
        None, gauge("tidegate_ingest_oldest_kept_seconds",
                    "Time since the broker took the oldest of them, 0 for none", or_zero))
    heard_age_s: float | None = None
    refusal: str | None = None
    ingested: int = exposed(
        0, counter("tidegate_ingest_ingested_total",
                   "Kept readings that an ingest has acknowledged"))
    sent_again: int = exposed(
        0, counter("tidegate_ingest_sent_again_total",
                   "Kept readings that looked lost and were sent to the broker again"))
    receipts: int = exposed(
        0, counter("tidegate_ingest_receipts_total", "Acknowledgements heard from ingests"))
    bad_receipts: int = exposed(
        0, counter("tidegate_ingest_bad_receipts_total",
                   "Acknowledgements that were none, or of readings that were never sent"))
    unkept: int = exposed(
        0, counter("tidegate_ingest_unkept_total",
                   "Readings that should have been kept and are at the broker alone"))
    given_up: int = exposed(
        0, counter("tidegate_ingest_given_up_total",
                   "Kept readings that made room for new ones; see journal.when_full"))
    unreadable: int = exposed(
        0, counter("tidegate_ingest_unreadable_total",
                   "Kept readings that could not be read back"))
    # fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class StateNumbers:
    """What outlasts a restart beside readings: rows that wait to be written, and the database.
    `lost`: what this start did not find of what was saved.
    """

    # fmt: off
    condition: Condition = exposed(
        Condition.OK,
        of_condition("tidegate_state_condition",
                     "1 for the condition of the database of sessions, 0 for the others"))
    error: str | None = None
    pending_rows: int = exposed(
        0, gauge("tidegate_state_pending_rows", "Rows of sessions that wait to be written"))
    commits: int = exposed(
        0, counter("tidegate_state_commits_total", "Transactions written"))
    failures: int = exposed(
        0, counter("tidegate_state_commit_failures_total",
                   "Transactions that could not be written and are tried again"))
    file_bytes: int = exposed(
        0, gauge("tidegate_state_file_bytes", "Size of the database of sessions"))
    # fmt: on
    lost: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryNumbers:
    """Of the limit that comes first, `place` says whose; 0 of 0 where none is known."""

    # fmt: off
    is_scarce: bool = exposed(
        False, gauge("tidegate_memory_scarce",
                     "1 while memory is scarce and new sensors are refused"))
    used_bytes: int = exposed(
        0, gauge("tidegate_memory_used_bytes",
                 "Of the memory limit that comes first, used by all"))
    limit_bytes: int = exposed(
        0, gauge("tidegate_memory_limit_bytes",
                 "That limit: of a control group, or of the machine"))
    # fmt: on
    place: str = ""


@dataclass(frozen=True, slots=True)
class LogNumbers:
    """`blocked_s`: for how long nobody has read the log, None while it is read. `error`: why the
    last line could not be written, None if it was.
    """

    # fmt: off
    lost_lines: int = exposed(
        0, counter("tidegate_log_lines_lost_total",
                   "Lines of the log that nobody read in time, or that could not be written"))
    # fmt: on
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

    # fmt: off
    uptime_s: float = number(
        lambda look: look.of.uptime_s,
        gauge("tidegate_uptime_seconds", "Time since the start"))
    clients_by_state: Mapping[State, int] = number(
        lambda look: look.clients_by_state,
        Metric("tidegate_clients", Kind.GAUGE, "Sensors by the state of their session", ("state",),
               lambda counts: [((state.value,), counts.get(state, 0)) for state in State]))
    unproven_clients: int = number(
        lambda look: len(look.engine.half_open),
        gauge("tidegate_unproven_clients",
              "Of these, sensors that have said nothing after CONNECT; see "
              "limits.unproven_clients_max"))
    clients_overdue: int = number(
        lambda look: look.clients_overdue,
        gauge("tidegate_clients_overdue",
              "Of these, sensors that should have been heard by now; their tolerance still runs"))
    subscriptions: int = number(
        lambda look: len(look.engine.downlink.subscriptions),
        gauge("tidegate_subscriptions", "Subscriptions of sensors"))
    covering_subscriptions: int = number(
        lambda look: look.engine.downlink.subscriptions.covering_count,
        gauge("tidegate_covering_subscriptions",
              "Subscriptions at the broker that cover all of them"))
    retained_messages: int = number(
        lambda look: len(look.engine.downlink.retained),
        gauge("tidegate_retained_messages", "Retained messages kept for new subscribers"))
    retained_bytes: int = number(
        lambda look: look.engine.downlink.retained.size_bytes,
        gauge("tidegate_retained_bytes", "Size of the retained messages kept"))
    upstream_connected: bool = number(
        lambda look: look.of.is_connected,
        gauge("tidegate_upstream_connected", "1 while the broker is connected, else 0"))
    upstream_state: str = number(lambda look: look.upstream_state)
    upstream_connects: int = number(
        lambda look: look.broker.counters.connects,
        counter("tidegate_upstream_connects_total", "Connections made to the broker"))
    upstream_in_flight: int = number(
        lambda look: len(look.in_flight),
        gauge("tidegate_upstream_in_flight_messages",
              "Readings sent to the broker and not yet acknowledged"))
    upstream_waiting: int = number(
        lambda look: len(look.in_flight.waiting),
        gauge("tidegate_upstream_waiting_messages", "Readings that wait for the broker in memory"))
    upstream_waiting_bytes: int = number(
        lambda look: look.in_flight.waiting_bytes,
        gauge("tidegate_upstream_waiting_bytes", "Size of the readings that wait in memory"))
    upstream_bytes_in: int = number(
        lambda look: look.broker.counters.bytes_in,
        counter("tidegate_upstream_received_bytes_total", "Bytes from the broker"))
    upstream_bytes_out: int = number(
        lambda look: look.broker.counters.bytes_out,
        counter("tidegate_upstream_sent_bytes_total", "Bytes to the broker"))
    readings_by_qos: tuple[int, int, int] = number(
        lambda look: by_qos(look.engine.uplink.taken),
        of_qos("tidegate_readings_total", "Readings taken from sensors"))
    deliveries_by_qos: tuple[int, int, int] = number(
        lambda look: by_qos(look.engine.downlink.delivered),
        of_qos("tidegate_deliveries_total", "Messages handed to sensors"))
    # These two are one metric: OF_SEVERAL.
    frames_received: Mapping[str, int] = number(lambda look: by_kind(look.engine.received))
    frames_sent: Mapping[str, int] = number(lambda look: by_kind(look.of.frames_sent))
    outbox_messages: int = number(
        lambda look: look.outbox_messages,
        gauge("tidegate_outbox_messages", "Messages that wait for sensors, most of them asleep"))
    links: tuple[LinkNumbers, ...] = number(
        lambda look: look.links,
        Metric("tidegate_multicast_joined", Kind.GAUGE,
               "1 while the multicast group of the link is heard, else 0", ("link",),
               groups_joined),
        Metric("tidegate_datagrams_total", Kind.COUNTER,
               "Datagrams by link; on serial lines messages", ("link", "direction"), datagrams),
        of_links("tidegate_datagram_send_failures_total",
                 "Datagrams and messages that could not be sent", lambda link: link.send_failures),
        of_sockets("tidegate_receive_buffer_drops_total",
                   "Datagrams that came faster than they were taken; see udp.receive_buffer_bytes",
                   lambda link: link.receive_buffer_drops),
        of_sockets("tidegate_truncated_datagrams_total",
                   "Datagrams too long to be a frame within the limits, dropped",
                   lambda link: link.truncated),
        of_lines("tidegate_serial_open", Kind.GAUGE,
                 "1 while the port of the line is open, else 0", lambda line: line.is_open),
        of_lines("tidegate_serial_opens_total", Kind.COUNTER,
                 "How often the port was opened, the first time included",
                 lambda line: line.opened),
        of_lines("tidegate_serial_losses_total", Kind.COUNTER,
                 "How often an open port was lost: a cable pulled, a port server gone",
                 lambda line: line.lost),
        Metric("tidegate_serial_frames_total", Kind.COUNTER,
               "Frames received by what they were: good, or why they were no message; see "
               "docs/serial.md", ("link", "result"), line_frames),
        of_lines("tidegate_serial_resyncs_total", Kind.COUNTER,
                 "Good frames that came after one that was not", lambda line: line.resyncs),
        of_lines("tidegate_serial_chatter_bytes_total", Kind.COUNTER,
                 "Bytes of text between frames: what a board prints",
                 lambda line: line.chatter_bytes),
        Metric("tidegate_serial_bytes_total", Kind.COUNTER, "Bytes on the line",
               ("link", "direction"), line_bytes),
        of_lines("tidegate_serial_waiting_bytes", Kind.GAUGE,
                 "Bytes that wait for the line to take them", lambda line: line.waiting_bytes))
    event_loop_lag_s: float = number(
        lambda look: look.of.event_loop_lag_s(),
        gauge("tidegate_event_loop_lag_seconds",
              "How late the event loop was at its worst in the last minute; more than 0.1 is too "
              "much"))
    pauses: int = number(  # times in which the process did not run
        lambda look: look.of.pauses.count,
        counter("tidegate_process_pauses_total",
                "Times in which the process did not run: stopped, suspended, or the machine "
                "overloaded"),
        default=0)
    pause_s: float = number(  # all of them
        lambda look: look.of.pauses.seconds,
        counter("tidegate_process_pause_seconds_total",
                "All of them together; every timer of a sensor is extended by that time"),
        default=0.0)
    discovery: DiscoveryRole = number(
        lambda look: look.engine.discovery.part,
        Metric("tidegate_discovery", Kind.GAUGE,
               "1 for what the gateway does for sensors that search: advertising, standby, or "
               "unable to take a reading; 0 for the others", ("part",),
               lambda found: [((role.value,), role is found) for role in DiscoveryRole]),
        default=DiscoveryRole.UNABLE)
    readings_per_s: float | None = number(
        lambda look: look.of.traffic.rates.in_per_s, default=None)
    deliveries_per_s: float | None = number(
        lambda look: look.of.traffic.rates.out_per_s, default=None)
    said: int = number(
        lambda look: look.engine.upstream.said,
        counter("tidegate_said_total",
                "Messages of the gateway's own: presence of devices, statistics, Home Assistant"),
        default=0)
    drain_paused: bool = number(
        lambda look: look.engine.operator.is_drain_paused, default=False)
    permit_left_s: float | None = number(lambda look: look.permit_left_s, default=None)
    shared_ids: Sequence[SharedId] = number(lambda look: look.shared_ids, default=())
    permitted_clients: int = number(lambda look: look.engine.operator.permitted, default=0)
    journal: JournalNumbers = number(lambda look: look.journal, default=JournalNumbers())
    state: StateNumbers = number(lambda look: look.of.state(), default=StateNumbers())
    memory: MemoryNumbers = number(lambda look: look.of.memory(), default=MemoryNumbers())
    ingest: IngestNumbers = number(lambda look: look.ingest, default=IngestNumbers())
    aside: AsideNumbers = number(lambda look: look.aside, default=AsideNumbers())
    notices: PresenceNumbers = number(lambda look: look.of.notices(), default=PresenceNumbers())
    standstills: tuple[Standstill, ...] = number(lambda look: look.of.standstills(), default=())
    unmoved_s: Mapping[AlarmName, float] = number(
        lambda look: look.of.unmoved_s(),
        Metric("tidegate_unmoved_seconds", Kind.GAUGE,
               "How long the oldest that waits has not moved, by the alarm that it becomes beyond "
               "its bound; 0 where nothing waits", ("alarm",),
               lambda unmoved: [((name.value,), seconds) for name, seconds in unmoved.items()]),
        default_factory=dict)
    configuration_doubt: str | None = number(
        lambda look: look.of.configuration_doubt(), default=None)
    log: LogNumbers = number(lambda look: look.of.log(), default=LogNumbers())
    slow_callbacks: Mapping[str, int] = number(
        lambda look: look.of.slow_callbacks(),
        Metric("tidegate_slow_callbacks_total", Kind.COUNTER,
               "Callbacks that held the event loop for more than 0.05 s, in which nobody was "
               "served", ("callback",),
               lambda counts: [((name,), count) for name, count in counts.items()]),
        default_factory=dict)
    # fmt: on


def sync_seconds(journal: JournalNumbers) -> Samples:
    """None before anything was synced."""
    quantiles = {"0.5": journal.sync_s_p50, "0.99": journal.sync_s_p99, "1": journal.sync_s_worst}
    return [((name,), value) for name, value in quantiles.items() if value is not None]


def blocked_subjects(aside: AsideNumbers) -> int:
    return sum(map(len, (aside.blocked_readings, aside.blocked_filters, aside.blocked_own_topics)))


# fmt: off
OF_SEVERAL: tuple[Metric[Numbers], ...] = (
    Metric("tidegate_frames_total", Kind.COUNTER, "MQTT-SN frames by kind", ("type", "direction"),
           lambda n: both_ways(n.frames_received, n.frames_sent)),
    Metric("tidegate_journal_sync_seconds", Kind.SUMMARY,
           "Time that fdatasync took, of the last 1,000 calls; 1 is the worst", ("quantile",),
           lambda n: sync_seconds(n.journal),
           lambda n: (n.journal.sync_s_total, n.journal.syncs_timed)),
    gauge("tidegate_upstream_blocked_subjects",
          "Pairs of client and topic, filters and topics of our own that are not sent for a while, "
          "because the broker has ended the connection for them",
          lambda n: blocked_subjects(n.aside)),
)
# fmt: on
