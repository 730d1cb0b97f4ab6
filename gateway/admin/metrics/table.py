"""Every metric there is: /metrics and docs/metrics.md are both made from METRICS.

Names are `tidegate_`, then what it is, then its base unit; what only grows ends in `_total`. The
values of labels come from an enum or from the configuration, never from a client: how many series
there are is known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from gateway.admin.alarms import named_alarms
from gateway.admin.event_log import EventLog
from gateway.admin.numbers import Condition, LineNumbers, LinkNumbers, Numbers
from gateway.core.alarm_names import AlarmName
from gateway.core.effects import DiscoveryRole
from gateway.core.state_records import State

Sample = tuple[tuple[str, ...], float]
Samples = Iterable[Sample]


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Moment:
    """All that a scrape sees."""

    numbers: Numbers
    news: EventLog
    version: str


@dataclass(frozen=True, slots=True)
class Metric:
    """`samples` gives the values of `labels`, and the number that belongs to them; of a summary
    `whole` is the sum of all observations, and how many they are.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    samples: Callable[[Moment], Samples]
    whole: Callable[[Moment], tuple[float, int]] | None = None


def gauge(name: str, help_: str, value: Callable[[Numbers], float]) -> Metric:
    return Metric(name, Kind.GAUGE, help_, (), lambda moment: [((), value(moment.numbers))])


def counter(name: str, help_: str, value: Callable[[Numbers], float]) -> Metric:
    return Metric(name, Kind.COUNTER, help_, (), lambda moment: [((), value(moment.numbers))])


def news(name: str, help_: str, value: Callable[[EventLog], float]) -> Metric:
    return Metric(name, Kind.COUNTER, help_, (), lambda moment: [((), value(moment.news))])


def of_links(name: str, help_: str, value: Callable[[LinkNumbers], float]) -> Metric:
    def samples(moment: Moment) -> Samples:
        return [((link.name,), value(link)) for link in moment.numbers.links]

    return Metric(name, Kind.COUNTER, help_, ("link",), samples)


def of_sockets(name: str, help_: str, value: Callable[[LinkNumbers], float]) -> Metric:
    """None for serial lines."""

    def samples(moment: Moment) -> Samples:
        links = moment.numbers.links
        return [((link.name,), value(link)) for link in links if link.line is None]

    return Metric(name, Kind.COUNTER, help_, ("link",), samples)


def alarms_on(moment: Moment) -> Samples:
    found = {name for name, _ in named_alarms(moment.numbers, moment.news)}
    return [((name.value,), name in found) for name in AlarmName]


def unmoved(moment: Moment) -> Samples:
    return [((name.value,), seconds) for name, seconds in moment.numbers.unmoved_s.items()]


def both_ways(received: Mapping[str, int], sent: Mapping[str, int]) -> Samples:
    for direction, counts in (("received", received), ("sent", sent)):
        for name, count in sorted(counts.items()):
            yield (name, direction), count


def of_links_both_ways(moment: Moment) -> Samples:
    links = moment.numbers.links
    return both_ways(
        {link.name: link.datagrams_received for link in links},
        {link.name: link.datagrams_sent for link in links},
    )


def of_condition(name: str, help_: str, value: Callable[[Numbers], Condition]) -> Metric:
    """1 for the condition that holds, 0 for the others."""

    def samples(moment: Moment) -> Samples:
        holds = value(moment.numbers)
        return [((condition.value,), condition is holds) for condition in Condition]

    return Metric(name, Kind.GAUGE, help_, ("condition",), samples)


def groups_joined(moment: Moment) -> Samples:
    """None for links without a group."""
    links = moment.numbers.links
    return [((link.name,), link.group_joined) for link in links if link.group_joined is not None]


def of_lines(name: str, kind: Kind, help_: str, value: Callable[[LineNumbers], float]) -> Metric:
    """None for links that are no serial lines."""

    def samples(moment: Moment) -> Samples:
        links = moment.numbers.links
        return [((link.name,), value(link.line)) for link in links if link.line is not None]

    return Metric(name, kind, help_, ("link",), samples)


def line_bytes(moment: Moment) -> Samples:
    lines = {link.name: link.line for link in moment.numbers.links if link.line is not None}
    return both_ways(
        {name: line.bytes_received for name, line in lines.items()},
        {name: line.bytes_sent for name, line in lines.items()},
    )


def line_frames(moment: Moment) -> Samples:
    for link in moment.numbers.links:
        if link.line is not None:
            for result, count in link.line.frames.items():
                yield (link.name, result), count


def sync_seconds(moment: Moment) -> Samples:
    """None before anything was synced."""
    journal = moment.numbers.journal
    quantiles = {"0.5": journal.sync_s_p50, "0.99": journal.sync_s_p99, "1": journal.sync_s_worst}
    return [((name,), value) for name, value in quantiles.items() if value is not None]


def sync_seconds_of_all(moment: Moment) -> tuple[float, int]:
    journal = moment.numbers.journal
    return journal.sync_s_total, journal.syncs_timed


def by_qos(counts: tuple[int, int, int]) -> Samples:
    return [((str(qos),), count) for qos, count in enumerate(counts)]


# fmt: off
METRICS: tuple[Metric, ...] = (
    Metric("tidegate_build_info", Kind.GAUGE, "Always 1; says which version runs",
           ("version",), lambda moment: [((moment.version,), 1)]),
    gauge("tidegate_uptime_seconds", "Time since the start", lambda n: n.uptime_s),
    gauge("tidegate_event_loop_lag_seconds",
          "How late the event loop was at its worst in the last minute; more than 0.1 is too much",
          lambda n: n.event_loop_lag_s),
    counter("tidegate_process_pauses_total",
            "Times in which the process did not run: stopped, suspended, or the machine overloaded",
            lambda n: n.pauses),
    counter("tidegate_process_pause_seconds_total",
            "All of them together; every timer of a sensor is extended by that time",
            lambda n: n.pause_s),
    Metric("tidegate_slow_callbacks_total", Kind.COUNTER,
           "Callbacks that held the event loop for more than 0.05 s, in which nobody was served",
           ("callback",),
           lambda moment: [((name,), count)
                           for name, count in moment.numbers.slow_callbacks.items()]),
    gauge("tidegate_memory_scarce", "1 while memory is scarce and new sensors are refused",
          lambda n: n.memory.is_scarce),
    gauge("tidegate_memory_used_bytes", "Of the memory limit that comes first, used by all",
          lambda n: n.memory.used_bytes),
    gauge("tidegate_memory_limit_bytes", "That limit: of a control group, or of the machine",
          lambda n: n.memory.limit_bytes),
    counter("tidegate_log_lines_lost_total",
            "Lines of the log that nobody read in time, or that could not be written",
            lambda n: n.log.lost_lines),

    Metric("tidegate_clients", Kind.GAUGE, "Sensors by the state of their session", ("state",),
           lambda moment: [((state.value,), moment.numbers.clients_by_state.get(state, 0))
                           for state in State]),
    gauge("tidegate_unproven_clients",
          "Of these, sensors that have said nothing after CONNECT; see limits.unproven_clients_max",
          lambda n: n.unproven_clients),
    gauge("tidegate_clients_overdue",
          "Of these, sensors that should have been heard by now; their tolerance still runs",
          lambda n: n.clients_overdue),
    Metric("tidegate_client_transitions_total", Kind.COUNTER,
           "How often a session entered this state", ("state",),
           lambda moment: [((state.value,), count)
                           for state, count in moment.news.state_changes.items()]),
    news("tidegate_client_rebinds_total",
         "Sleeping sensors that woke up at another address; see mqtt_sn.rebind_sleepers",
         lambda n: n.rebound),
    Metric("tidegate_readings_total", Kind.COUNTER, "Readings taken from sensors", ("qos",),
           lambda moment: by_qos(moment.numbers.readings_by_qos)),
    Metric("tidegate_deliveries_total", Kind.COUNTER, "Messages handed to sensors", ("qos",),
           lambda moment: by_qos(moment.numbers.deliveries_by_qos)),
    Metric("tidegate_dropped_total", Kind.COUNTER,
           "Frames, readings and messages that were dropped or refused", ("reason",),
           lambda moment: [((reason.value,), count)
                           for reason, count in moment.news.dropped.items()]),
    gauge("tidegate_outbox_messages", "Messages that wait for sensors, most of them asleep",
          lambda n: n.outbox_messages),

    gauge("tidegate_subscriptions", "Subscriptions of sensors", lambda n: n.subscriptions),
    gauge("tidegate_covering_subscriptions", "Subscriptions at the broker that cover all of them",
          lambda n: n.covering_subscriptions),
    gauge("tidegate_retained_messages", "Retained messages kept for new subscribers",
          lambda n: n.retained_messages),
    gauge("tidegate_retained_bytes", "Size of the retained messages kept",
          lambda n: n.retained_bytes),

    gauge("tidegate_upstream_connected", "1 while the broker is connected, else 0",
          lambda n: n.upstream_connected),
    counter("tidegate_upstream_connects_total", "Connections made to the broker",
            lambda n: n.upstream_connects),
    news("tidegate_upstream_sessions_kept_total",
         "Connections at which the broker still knew our session",
         lambda n: n.upstream_sessions_kept),
    news("tidegate_upstream_sessions_new_total",
         "Connections at which the broker knew no session: the first one, or it lost its state",
         lambda n: n.upstream_sessions_new),
    news("tidegate_upstream_resent_total", "Readings sent again after a new connection",
         lambda n: n.upstream_resent),
    news("tidegate_upstream_refusals_total", "Connections that the broker refused or ended",
         lambda n: n.upstream_refusals),
    news("tidegate_subscription_refusals_total", "Subscriptions that the broker refused",
         lambda n: n.subscription_refusals),
    gauge("tidegate_aside_readings", "Readings set aside, which the broker does not take",
          lambda n: n.aside.readings),
    gauge("tidegate_aside_bytes", "Size of the readings set aside", lambda n: n.aside.bytes),
    counter("tidegate_set_aside_total", "Readings that were set aside",
            lambda n: n.aside.set_aside),
    gauge("tidegate_upstream_blocked_subjects",
          "Pairs of client and topic, filters and topics of our own that are not sent for a while, "
          "because the broker has ended the connection for them",
          lambda n: len(n.aside.blocked_readings) + len(n.aside.blocked_filters)
          + len(n.aside.blocked_own_topics)),
    gauge("tidegate_upstream_in_flight_messages",
          "Readings sent to the broker and not yet acknowledged", lambda n: n.upstream_in_flight),
    gauge("tidegate_upstream_waiting_messages", "Readings that wait for the broker in memory",
          lambda n: n.upstream_waiting),
    gauge("tidegate_upstream_waiting_bytes", "Size of the readings that wait in memory",
          lambda n: n.upstream_waiting_bytes),
    counter("tidegate_upstream_received_bytes_total", "Bytes from the broker",
            lambda n: n.upstream_bytes_in),
    counter("tidegate_upstream_sent_bytes_total", "Bytes to the broker",
            lambda n: n.upstream_bytes_out),
    counter("tidegate_said_total",
            "Messages of the gateway's own: presence of devices, statistics, Home Assistant",
            lambda n: n.said),

    of_condition("tidegate_journal_condition",
                 "1 for the condition of the journal, 0 for the others",
                 lambda n: n.journal.condition),
    gauge("tidegate_journal_readings", "Readings on disk that wait for the broker",
          lambda n: n.journal.depth),
    gauge("tidegate_journal_parked_readings",
          "Of these, readings that are on disk only and will be read back",
          lambda n: n.journal.parked),
    gauge("tidegate_journal_used_bytes", "Size of the segments in use",
          lambda n: n.journal.used_bytes),
    gauge("tidegate_journal_budget_bytes", "What the segments may take; see journal.size_max",
          lambda n: n.journal.budget_bytes),
    gauge("tidegate_journal_oldest_age_seconds", "Age of the oldest reading that waits, 0 for none",
          lambda n: n.journal.oldest_age_s or 0.0),
    gauge("tidegate_journal_segments", "Segment files in use", lambda n: n.journal.segments),
    counter("tidegate_journal_stored_total", "Readings made durable", lambda n: n.journal.stored),
    counter("tidegate_journal_finished_total", "Readings that the journal may forget",
            lambda n: n.journal.finished),
    counter("tidegate_journal_dropped_oldest_total",
            "Readings given up for newer ones; see journal.when_full",
            lambda n: n.journal.dropped_oldest),
    counter("tidegate_journal_damages_total",
            "Damaged places found in segments, which are kept as *.damaged",
            lambda n: n.journal.damaged),
    counter("tidegate_journal_lost_total", "Readings on disk that could not be read back",
            lambda n: n.journal.lost),
    gauge("tidegate_journal_out_of_reach_readings",
          "Readings on disk whose file is gone or cannot be opened; tried each second",
          lambda n: n.journal.out_of_reach),
    counter("tidegate_journal_failures_total", "Writes and calls of fdatasync that failed",
            lambda n: n.journal.failures),
    counter("tidegate_journal_syncs_total", "Calls of fdatasync", lambda n: n.journal.syncs),
    counter("tidegate_journal_groups_total", "Groups of records written together",
            lambda n: n.journal.groups),
    gauge("tidegate_journal_fill_ratio",
          "How much of the budget new readings cannot use, from 0 to 1", lambda n: n.journal.fill),
    counter("tidegate_journal_written_bytes_total", "Bytes written to segments",
            lambda n: n.journal.bytes_written),
    Metric("tidegate_journal_sync_seconds", Kind.SUMMARY,
           "Time that fdatasync took, of the last 1,000 calls; 1 is the worst", ("quantile",),
           sync_seconds, sync_seconds_of_all),

    gauge("tidegate_ingest_kept_readings",
          "Readings that the broker has taken and no ingest has acknowledged; see "
          "journal.keep_until_ingested", lambda n: n.ingest.kept),
    gauge("tidegate_ingest_oldest_kept_seconds",
          "Time since the broker took the oldest of them, 0 for none",
          lambda n: n.ingest.oldest_age_s or 0.0),
    counter("tidegate_ingest_ingested_total", "Kept readings that an ingest has acknowledged",
            lambda n: n.ingest.ingested),
    counter("tidegate_ingest_sent_again_total",
            "Kept readings that looked lost and were sent to the broker again",
            lambda n: n.ingest.sent_again),
    counter("tidegate_ingest_receipts_total", "Acknowledgements heard from ingests",
            lambda n: n.ingest.receipts),
    counter("tidegate_ingest_bad_receipts_total",
            "Acknowledgements that were none, or of readings that were never sent",
            lambda n: n.ingest.bad_receipts),
    counter("tidegate_ingest_unkept_total",
            "Readings that should have been kept and are at the broker alone",
            lambda n: n.ingest.unkept),
    counter("tidegate_ingest_given_up_total",
            "Kept readings that made room for new ones; see journal.when_full",
            lambda n: n.ingest.given_up),
    counter("tidegate_ingest_unreadable_total", "Kept readings that could not be read back",
            lambda n: n.ingest.unreadable),

    of_condition("tidegate_state_condition",
                 "1 for the condition of the database of sessions, 0 for the others",
                 lambda n: n.state.condition),
    gauge("tidegate_state_pending_rows", "Rows of sessions that wait to be written",
          lambda n: n.state.pending_rows),
    counter("tidegate_state_commits_total", "Transactions written", lambda n: n.state.commits),
    counter("tidegate_state_commit_failures_total",
            "Transactions that could not be written and are tried again",
            lambda n: n.state.failures),
    gauge("tidegate_state_file_bytes", "Size of the database of sessions",
          lambda n: n.state.file_bytes),

    Metric("tidegate_alarm", Kind.GAUGE,
           "1 while the alarm of this name is on, else 0; the sentences are in /api/status",
           ("alarm",), alarms_on),
    Metric("tidegate_unmoved_seconds", Kind.GAUGE,
           "How long the oldest that waits has not moved, by the alarm that it becomes beyond its "
           "bound; 0 where nothing waits", ("alarm",), unmoved),

    Metric("tidegate_frames_total", Kind.COUNTER, "MQTT-SN frames by kind", ("type", "direction"),
           lambda moment: both_ways(moment.numbers.frames_received, moment.numbers.frames_sent)),
    Metric("tidegate_discovery", Kind.GAUGE,
           "1 for what the gateway does for sensors that search: advertising, standby, or unable "
           "to take a reading; 0 for the others", ("part",),
           lambda moment: [
               ((role.value,), role is moment.numbers.discovery) for role in DiscoveryRole]),
    Metric("tidegate_multicast_joined", Kind.GAUGE,
           "1 while the multicast group of the link is heard, else 0", ("link",), groups_joined),
    Metric("tidegate_datagrams_total", Kind.COUNTER,
           "Datagrams by link; on serial lines messages",
           ("link", "direction"), of_links_both_ways),
    of_links("tidegate_datagram_send_failures_total",
             "Datagrams and messages that could not be sent", lambda link: link.send_failures),
    of_sockets("tidegate_receive_buffer_drops_total",
               "Datagrams that came faster than they were taken; see udp.receive_buffer_bytes",
               lambda link: link.receive_buffer_drops),
    of_sockets("tidegate_truncated_datagrams_total",
               "Datagrams too long to be a frame within the limits, dropped",
               lambda link: link.truncated),
    of_lines("tidegate_serial_open", Kind.GAUGE, "1 while the port of the line is open, else 0",
             lambda line: line.is_open),
    of_lines("tidegate_serial_opens_total", Kind.COUNTER,
             "How often the port was opened, the first time included", lambda line: line.opened),
    of_lines("tidegate_serial_losses_total", Kind.COUNTER,
             "How often an open port was lost: a cable pulled, a port server gone",
             lambda line: line.lost),
    Metric("tidegate_serial_frames_total", Kind.COUNTER,
           "Frames received by what they were: good, or why they were no message; see "
           "docs/serial.md", ("link", "result"), line_frames),
    of_lines("tidegate_serial_resyncs_total", Kind.COUNTER,
             "Good frames that came after one that was not", lambda line: line.resyncs),
    of_lines("tidegate_serial_chatter_bytes_total", Kind.COUNTER,
             "Bytes of text between frames: what a board prints", lambda line: line.chatter_bytes),
    Metric("tidegate_serial_bytes_total", Kind.COUNTER, "Bytes on the line",
           ("link", "direction"), line_bytes),
    of_lines("tidegate_serial_waiting_bytes", Kind.GAUGE,
             "Bytes that wait for the line to take them", lambda line: line.waiting_bytes),
)
# fmt: on

# Where there is a /proc; the names are those of every exporter.
PROCESS_METRICS: tuple[tuple[str, Kind, str], ...] = (
    ("process_virtual_memory_bytes", Kind.GAUGE, "Virtual memory size"),
    ("process_resident_memory_bytes", Kind.GAUGE, "Memory in use"),
    ("process_start_time_seconds", Kind.GAUGE, "Start of the process, in Unix time"),
    ("process_cpu_seconds_total", Kind.COUNTER, "Processor time used"),
    ("process_open_fds", Kind.GAUGE, "Open file descriptors"),
    ("process_max_fds", Kind.GAUGE, "How many may be open"),
)
