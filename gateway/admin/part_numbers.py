"""Numbers of the parts of the gateway: of a link, the journal, the state, the log and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from gateway.admin.metrics.metric import Kind, Metric, Samples, counter, declared, exposed, gauge
from gateway.admin.metrics.sync_times import SyncTimes
from gateway.core.alarm_names import AlarmName
from gateway.storage.journal import numbers as journal_side

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
class DtlsNumbers:
    """What a link with DTLS has beside others. `half_open`: handshakes under way; `refused`: those
    that came to nothing, and `sessions_ended`, by why; `hellos`: first ones, answered with a
    cookie, and `hellos_dropped`; `records_refused`: forged, repeated, or of no session; `unsent`:
    messages to an address that has no session any more.
    """

    sessions: int
    half_open: int
    handshakes: int
    refused: Mapping[str, int]
    hellos: int
    hellos_dropped: int
    records_refused: int
    unsent: int
    sessions_ended: Mapping[str, int]


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
    outside_networks: int = 0
    dtls: DtlsNumbers | None = None  # of a link with DTLS
    lost_address: str | None = None  # that the machine has given up its address, in a sentence


@dataclass(frozen=True, slots=True)
class JournalLook:
    """What the fields of JournalNumbers are read from; `sync_s` are the half, 99 of 100 and the
    worst of the last calls of fdatasync.
    """

    found: journal_side.JournalNumbers
    sync_times: SyncTimes
    sync_s: Sequence[float | None]
    oldest_age_s: float | None
    error: str | None


# How numbers are exposed


def of_journal(
    default: Value, read: Callable[[JournalLook], Value], *metrics: Metric[Value]
) -> Value:
    return declared(read, metrics, default)


def or_zero(seconds: float | None) -> float:
    return seconds or 0.0


def of_condition(name: str, help_: str) -> Metric[Condition]:
    """1 for the condition that holds, 0 for the others."""

    def samples(holds: Condition) -> Samples:
        return [((condition.value,), condition is holds) for condition in Condition]

    return Metric(name, Kind.GAUGE, help_, ("condition",), samples)


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
    """`blocked_s`: for how long the log has not been read, None while it is. `error`: why the
    last line could not be written, None if it was.
    """

    # fmt: off
    lost_lines: int = exposed(
        0, counter("tidegate_log_lines_lost_total",
                   "Lines of the log that were not read in time, or could not be written"))
    # fmt: on
    blocked_s: float | None = None
    error: str | None = None
