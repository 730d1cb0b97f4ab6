"""Takes the gateway's numbers from all its parts, for metrics and status.

Counted when asked, not kept up to date: going through 100,000 sessions takes some 20 ms, once for
a scrape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from gateway.admin import conditions
from gateway.admin.aside import aside_numbers
from gateway.admin.metrics.sync_times import SyncTimes
from gateway.admin.metrics.throughput import Throughput
from gateway.admin.numbers import (
    Condition,
    IngestNumbers,
    JournalNumbers,
    LineNumbers,
    LinkNumbers,
    LogNumbers,
    MemoryNumbers,
    Numbers,
    SharedId,
    Standstill,
    StateNumbers,
)
from gateway.core.alarm_names import AlarmName
from gateway.core.engine import Engine
from gateway.core.process_pauses import ProcessPauses
from gateway.core.state_records import State
from gateway.core.values import Peer
from gateway.presence.numbers import PresenceNumbers
from gateway.presence.standing import is_overdue
from gateway.storage.journal import numbers as journal_side
from gateway.storage.journal.files import OsFiles
from gateway.transports.broker.link import BrokerLink, LinkState
from gateway.transports.udp.link import UdpLink
from gateway.transports.udp.multicast import GroupLink

if TYPE_CHECKING:
    from gateway.transports.serial.port import SerialLink


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`started_at` and `now` are in monotonic seconds; `broker_url` is without credentials."""

    engine: Engine
    links: Sequence[UdpLink]
    lines: Sequence[SerialLink]
    broker: BrokerLink
    broker_url: str
    frames_sent: Mapping[type, int]
    event_loop_lag_s: Callable[[], float]
    started_at: float
    now: Callable[[], float]
    journal: Callable[[], JournalNumbers] = JournalNumbers
    state: Callable[[], StateNumbers] = StateNumbers
    memory: Callable[[], MemoryNumbers] = MemoryNumbers
    notices: Callable[[], PresenceNumbers] = PresenceNumbers
    standstills: Callable[[], tuple[Standstill, ...]] = tuple
    unmoved_s: Callable[[], Mapping[AlarmName, float]] = dict
    configuration_doubt: Callable[[], str | None] = lambda: None
    log: Callable[[], LogNumbers] = LogNumbers
    slow_callbacks: Callable[[], Mapping[str, int]] = dict
    throughput: Throughput = field(default_factory=Throughput)  # of the journal
    traffic: Throughput = field(default_factory=Throughput)  # readings in, deliveries out
    groups: Mapping[int, GroupLink] = field(default_factory=dict)  # by link
    is_journal_used: bool = True
    drops_oldest: bool = False
    is_listed_only: bool = False
    pauses: ProcessPauses = field(default_factory=ProcessPauses)
    peer_text: Callable[[Peer], str] = str

    # From the daemon

    def note_throughput(self) -> None:
        """About once a second: the rates that are shown are made of it."""
        journal = self.journal()
        self.throughput.note(journal.stored, journal.finished, self.now())
        taken, delivered = self.engine.uplink.taken, self.engine.downlink.delivered
        self.traffic.note(sum(taken), sum(delivered), self.now())

    def serving_problem(self) -> str | None:
        """Why a reading that comes now could not be taken, or None."""
        return conditions.serving_problem(
            self.journal(),
            is_connected=self._is_connected,
            is_journal_used=self.is_journal_used,
            gives_way=self.drops_oldest,
        )

    # From /healthz

    def journal_failure(self) -> str | None:
        return conditions.journal_failure(self.journal())

    def backlog_failure(self) -> str | None:
        return conditions.backlog_failure(self.journal())

    def journal_doubt(self) -> str | None:
        return conditions.journal_doubt(self.journal())

    def state_doubt(self) -> str | None:
        return conditions.state_doubt(self.state())

    def broker_doubt(self) -> str | None:
        return self.broker.unstable

    def memory_doubt(self) -> str | None:
        return conditions.memory_doubt(self.memory())

    def log_doubt(self) -> str | None:
        return conditions.log_doubt(self.log())

    # From metrics and status

    @property
    def uptime_s(self) -> float:
        machine_time = self.pauses.machine_time
        return machine_time(self.now()) - machine_time(self.started_at)

    def numbers(self) -> Numbers:
        engine, broker = self.engine, self.broker
        states, overdue, outbox_messages = self._sessions()
        in_flight = engine.upstream.publisher.in_flight
        downlink = engine.downlink
        return Numbers(
            uptime_s=self.uptime_s,
            clients_by_state=states,
            unproven_clients=len(engine.half_open),
            clients_overdue=overdue,
            subscriptions=len(downlink.subscriptions),
            covering_subscriptions=downlink.subscriptions.covering_count,
            retained_messages=len(downlink.retained),
            retained_bytes=downlink.retained.size_bytes,
            upstream_connected=self._is_connected,
            upstream_state=self._upstream_state(),
            upstream_connects=broker.counters.connects,
            upstream_in_flight=len(in_flight),
            upstream_waiting=len(in_flight.waiting),
            upstream_waiting_bytes=in_flight.waiting_bytes,
            upstream_bytes_in=broker.counters.bytes_in,
            upstream_bytes_out=broker.counters.bytes_out,
            readings_by_qos=_by_qos(engine.uplink.taken),
            deliveries_by_qos=_by_qos(downlink.delivered),
            frames_received=_by_kind(engine.received),
            frames_sent=_by_kind(self.frames_sent),
            outbox_messages=outbox_messages,
            links=(
                *(
                    _link_numbers(number, link, self.groups.get(number))
                    for number, link in enumerate(self.links)
                ),
                *map(_line_numbers, self.lines),
            ),
            discovery=engine.discovery.part,
            event_loop_lag_s=self.event_loop_lag_s(),
            pauses=self.pauses.count,
            pause_s=self.pauses.seconds,
            said=engine.upstream.said,
            drain_paused=engine.operator.is_drain_paused,
            permit_left_s=self._permit_left_s(),
            shared_ids=self._shared_ids(),
            permitted_clients=engine.operator.permitted,
            readings_per_s=self.traffic.rates.in_per_s,
            deliveries_per_s=self.traffic.rates.out_per_s,
            journal=replace(
                self.journal(),
                in_per_s=self.throughput.rates.in_per_s,
                out_per_s=self.throughput.rates.out_per_s,
            ),
            state=self.state(),
            memory=self.memory(),
            ingest=self._ingest(),
            aside=aside_numbers(engine.uplink.aside, engine.upstream.caution, self.now()),
            notices=self.notices(),
            standstills=self.standstills(),
            unmoved_s=self.unmoved_s(),
            configuration_doubt=self.configuration_doubt(),
            log=self.log(),
            slow_callbacks=self.slow_callbacks(),
        )

    def _ingest(self) -> IngestNumbers:
        custody, now = self.engine.custody, self.now()
        oldest = next(iter(custody.kept), None)
        return IngestNumbers(
            is_on=custody.is_on,
            timeout_s=custody.timeout_s,
            kept=custody.kept.count,
            oldest_age_s=None if oldest is None else now - oldest.since,
            heard_age_s=None
            if custody.last_received_at == -inf
            else now - custody.last_received_at,
            refusal=custody.refusal,
            **asdict(custody.numbers),
        )

    def pulse(self) -> object:
        """Another value when a client has come or gone, or the broker."""
        engine = self.engine
        return len(engine.sessions), len(engine.half_open), self.broker.state

    def _shared_ids(self) -> list[SharedId]:
        return [
            SharedId(client=client_id, one=self.peer_text(one), other=self.peer_text(other))
            for client_id, one, other in self.engine.shared_ids.in_use(self.now())
        ]

    def _permit_left_s(self) -> float | None:
        if not self.is_listed_only:
            return None
        return max(0.0, self.engine.operator.permitted_until - self.now())

    def _sessions(self) -> tuple[dict[State, int], int, int]:
        """By state; how many of them are overdue; how many messages wait for them."""
        found: Counter[State] = Counter()
        overdue = waiting = 0
        now = self.now()
        for session in self.engine.sessions.values():
            found[session.state] += 1
            overdue += is_overdue(session, now)
            waiting += session.outbound.waiting
        for caller in self.engine.half_open:
            found[caller.state] += 1
        return {state: found[state] for state in State}, overdue, waiting

    @property
    def _is_connected(self) -> bool:
        return self.broker.state is LinkState.ACCEPTED

    def _upstream_state(self) -> str:
        broker = self.broker
        match broker.state:
            case LinkState.ACCEPTED:
                return f"connected to {self.broker_url}"
            case LinkState.WAITING if broker.next_try_at is not None:
                wait_s = max(0.0, broker.next_try_at - self.now())
                return f"trying {self.broker_url} again in {wait_s:.1f} s after: {broker.reason}"
            case LinkState.CONNECTING | LinkState.OPEN:
                return f"connecting to {self.broker_url}"
            case other:
                return str(other.value)


class TimedFiles(OsFiles):
    """The journal's files, with the time that each fdatasync takes."""

    def __init__(self, times: SyncTimes) -> None:
        self._times = times

    def sync_data(self, file: int) -> None:
        start = monotonic()
        super().sync_data(file)
        self._times.note(monotonic() - start)


def journal_numbers(
    found: journal_side.JournalNumbers,
    sync_times: SyncTimes,
    now: float,
    error: str | None = None,
) -> JournalNumbers:
    """What the journal says of itself, as it is shown; `now` by the machine's monotonic clock;
    `error` is its last one, in words.
    """
    p50, p99, worst = sync_times.quantiles(0.5, 0.99, 1.0)
    oldest = found.oldest_received_at
    return JournalNumbers(
        condition=Condition(found.state.value),
        error=None if found.state is journal_side.JournalState.OK else error,
        depth=found.depth,
        parked=found.queued,
        used_bytes=found.bytes,
        budget_bytes=found.bytes_max,
        fill=found.fill,
        oldest_age_s=None if oldest is None else max(0.0, now - oldest),
        segments=found.segments,
        damaged=found.damaged,
        lost=found.lost,
        out_of_reach=found.out_of_reach,
        backlog_problem=found.backlog_problem or None,
        stored=found.readings,
        finished=found.finished,
        dropped_oldest=found.dropped,
        groups=found.groups,
        syncs=found.syncs,
        bytes_written=found.bytes_written,
        failures=found.failures,
        sync_s_p50=p50,
        sync_s_p99=p99,
        sync_s_worst=worst,
        sync_s_total=sync_times.total_s,
        syncs_timed=sync_times.count,
    )


def _link_numbers(number: int, link: UdpLink, group: GroupLink | None) -> LinkNumbers:
    host, port = link.listening_on
    counters = link.counters
    return LinkNumbers(
        name=f"udp{number}",
        listening_on=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        datagrams_received=counters.received,
        datagrams_sent=counters.sent,
        send_failures=sum(counters.send_failed.values()),
        receive_buffer_drops=link.read_receive_buffer_drops(),
        truncated=counters.truncated,
        group_joined=None if group is None else group.is_joined,
        lost_address=link.lost_address,
    )


def _line_numbers(link: SerialLink) -> LinkNumbers:
    counters, framing = link.counters, link.framing_counters
    return LinkNumbers(
        name=link.name,
        listening_on=link.shown,
        datagrams_received=counters.received,
        datagrams_sent=counters.sent,
        send_failures=sum(counters.send_failed.values()),
        receive_buffer_drops=0,
        truncated=framing.too_long,
        line=LineNumbers(
            is_open=link.is_open,
            problem=link.check(),
            opened=counters.opened,
            lost=counters.lost,
            bytes_received=counters.bytes_in,
            bytes_sent=counters.bytes_out,
            waiting_bytes=link.waiting_bytes,
            frames=framing.frames(),
            resyncs=framing.resyncs,
            chatter_bytes=framing.chatter_bytes,
            released_s=link.released_s,
        ),
    )


def _by_qos(counts: Sequence[int]) -> tuple[int, int, int]:
    return counts[0], counts[1], counts[2]


def _by_kind(counts: Mapping[type, int]) -> dict[str, int]:
    return {kind.__name__.upper(): count for kind, count in counts.items()}
