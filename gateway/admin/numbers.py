"""The gateway in numbers at one moment: status, page, alarms and metrics show them.

Each number is declared once: its name and type, where it is read (gateway/admin/snapshot.py), and
the metrics that are made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from gateway.admin.aside import AsideNumbers
from gateway.admin.metrics.metric import (
    Kind,
    Metric,
    Samples,
    counter,
    declared,
    gauge,
    read_from,
)
from gateway.admin.part_numbers import (
    DtlsNumbers,
    IngestNumbers,
    JournalNumbers,
    LineNumbers,
    LinkNumbers,
    LogNumbers,
    MemoryNumbers,
    SharedId,
    Standstill,
    StateNumbers,
)
from gateway.core.alarm_names import AlarmName
from gateway.core.effects import DiscoveryRole
from gateway.core.state_records import State
from gateway.presence.numbers import PresenceNumbers

if TYPE_CHECKING:  # programs that ask a gateway need none of its parts
    from gateway.admin.snapshot import Look

Value = TypeVar("Value")


def number(
    read: Callable[[Look], Value],
    *metrics: Metric[Value],
    default: Any = MISSING,
    default_factory: Any = MISSING,
) -> Value:
    """A field of Numbers, with where it is read; a default is for those that are off."""
    return declared(read, metrics, default, default_factory)


def by_qos(counts: Sequence[int]) -> tuple[int, int, int]:
    return counts[0], counts[1], counts[2]


def by_kind(counts: Mapping[type, int]) -> dict[str, int]:
    return {kind.__name__.upper(): count for kind, count in counts.items()}


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


def of_dtls(
    name: str, kind: Kind, help_: str, value: Callable[[DtlsNumbers], float]
) -> Metric[Sequence[LinkNumbers]]:
    """None for links without DTLS."""

    def samples(links: Sequence[LinkNumbers]) -> Samples:
        return [((link.name,), value(link.dtls)) for link in links if link.dtls is not None]

    return Metric(name, kind, help_, ("link",), samples)


def of_dtls_reasons(
    name: str, help_: str, counts: Callable[[DtlsNumbers], Mapping[str, int]]
) -> Metric[Sequence[LinkNumbers]]:
    """None for links without DTLS."""

    def samples(links: Sequence[LinkNumbers]) -> Samples:
        return [
            ((link.name, reason), count)
            for link in links
            if link.dtls is not None
            for reason, count in counts(link.dtls).items()
        ]

    return Metric(name, Kind.COUNTER, help_, ("link", "reason"), samples)


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
class Numbers:
    """What begins with `upstream_` is about the connection to the broker.

    `upstream_state`: `connected to mqtt://host:1883`, or what it waits for and why. Numbers by QoS
    are for 0, 1 and 2. Frames are counted by the name of their kind, such as `PUBLISH`. Those that
    are overdue are active or asleep as well. `permit_left_s`: for how long new clients that are
    in no list may come in, and `join_left_s` into quarantine; None where all may. Rates are of the
    last minute, None before there are two looks. `said`: messages of the gateway's own, as presence
    is. `unmoved_s`: of each kind of standstill, how long the oldest that waits has not moved,
    within its bound or beyond it. `configuration_doubt`: which file of it cannot be read for a
    reload. `restart_wanted`: which keys wait for a restart. `slow_callbacks`: by name.
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
        of_sockets("tidegate_outside_networks_datagrams_total",
                   "Datagrams from hosts outside udp.networks, dropped unread",
                   lambda link: link.outside_networks),
        of_dtls("tidegate_dtls_sessions", Kind.GAUGE, "DTLS sessions that are open",
                lambda dtls: dtls.sessions),
        of_dtls("tidegate_dtls_half_open", Kind.GAUGE,
                "DTLS handshakes under way; see dtls.handshakes_max", lambda dtls: dtls.half_open),
        of_dtls("tidegate_dtls_handshakes_total", Kind.COUNTER, "DTLS handshakes that succeeded",
                lambda dtls: dtls.handshakes),
        of_dtls_reasons("tidegate_dtls_refused_total",
                        "DTLS handshakes that came to nothing, by why; see docs/security.md",
                        lambda dtls: dtls.refused),
        of_dtls("tidegate_dtls_hellos_total", Kind.COUNTER,
                "ClientHellos from addresses that had shown no cookie", lambda dtls: dtls.hellos),
        of_dtls("tidegate_dtls_hellos_dropped_total", Kind.COUNTER,
                "ClientHellos that were not answered: too many a second, cut or in fragments",
                lambda dtls: dtls.hellos_dropped),
        of_dtls("tidegate_dtls_records_refused_total", Kind.COUNTER,
                "Datagrams that were forged, repeated or of no session, dropped",
                lambda dtls: dtls.records_refused),
        of_dtls("tidegate_dtls_unsent_total", Kind.COUNTER,
                "Messages to addresses without a session, dropped", lambda dtls: dtls.unsent),
        of_dtls_reasons("tidegate_dtls_sessions_ended_total", "DTLS sessions that ended, by why",
                        lambda dtls: dtls.sessions_ended),
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
    join_left_s: float | None = number(lambda look: look.join_left_s, default=None)
    waiting_clients: Sequence[str] = number(lambda look: look.engine.operator.waiting, default=())
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
    restart_wanted: str | None = number(lambda look: look.of.restart_wanted(), default=None)
    log: LogNumbers = number(lambda look: look.of.log(), default=LogNumbers())
    slow_callbacks: Mapping[str, int] = number(
        lambda look: look.of.slow_callbacks(),
        Metric("tidegate_slow_callbacks_total", Kind.COUNTER,
               "Callbacks that held the event loop for more than 0.05 s, in which no client "
               "was served", ("callback",),
               lambda counts: [((name,), count) for name, count in counts.items()]),
        default_factory=dict)
    # fmt: on


def numbers_of(look: Look) -> Numbers:
    return read_from(Numbers, look)


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
