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
from gateway.admin.aside import AsideNumbers, aside_numbers
from gateway.admin.metrics.metric import read_from
from gateway.admin.metrics.sync_times import SyncTimes
from gateway.admin.metrics.throughput import Throughput
from gateway.admin.part_numbers import (
    DtlsNumbers,
    IngestNumbers,
    JournalLook,
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
from gateway.core.engine import Engine
from gateway.core.mqtt.inflight import InFlight
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
    from gateway.transports.dtls.link import DtlsLink
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
    restart_wanted: Callable[[], str | None] = lambda: None
    log: Callable[[], LogNumbers] = LogNumbers
    slow_callbacks: Callable[[], Mapping[str, int]] = dict
    throughput: Throughput = field(default_factory=Throughput)  # of the journal
    traffic: Throughput = field(default_factory=Throughput)  # readings in, deliveries out
    groups: Mapping[int, GroupLink] = field(default_factory=dict)  # by link
    dtls: Mapping[int, DtlsLink] = field(default_factory=dict)  # by link
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
            is_connected=self.is_connected,
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

    def pulse(self) -> object:
        """Another value when a client has come or gone, or the broker."""
        engine = self.engine
        return len(engine.sessions), len(engine.half_open), self.broker.state

    @property
    def is_connected(self) -> bool:
        return self.broker.state is LinkState.ACCEPTED


class Look:
    """What the fields of Numbers are read from, at one moment: the parts of the gateway, and what
    has to be put together of them.
    """

    of: Snapshot
    engine: Engine
    broker: BrokerLink
    in_flight: InFlight
    clients_by_state: dict[State, int]
    clients_overdue: int
    outbox_messages: int

    def __init__(self, of: Snapshot) -> None:
        self.of = of
        self.engine = of.engine
        self.broker = of.broker
        self.in_flight = of.engine.upstream.publisher.in_flight
        self._now = of.now()
        self._walk()

    def _walk(self) -> None:
        """Through all sessions, once."""
        found: Counter[State] = Counter()
        self.clients_overdue = self.outbox_messages = 0
        for session in self.engine.sessions.values():
            found[session.state] += 1
            self.clients_overdue += is_overdue(session, self._now)
            self.outbox_messages += session.outbound.waiting
        for half_open in self.engine.half_open:
            found[half_open.state] += 1
        self.clients_by_state = {state: found[state] for state in State}

    @property
    def upstream_state(self) -> str:
        broker, url = self.broker, self.of.broker_url
        match broker.state:
            case LinkState.ACCEPTED:
                return f"connected to {url}"
            case LinkState.WAITING if broker.next_try_at is not None:
                wait_s = max(0.0, broker.next_try_at - self._now)
                return f"trying {url} again in {wait_s:.1f} s after: {broker.reason}"
            case LinkState.CONNECTING | LinkState.OPEN:
                return f"connecting to {url}"
            case other:
                return str(other.value)

    @property
    def links(self) -> tuple[LinkNumbers, ...]:
        sockets = (
            _link_numbers(number, link, self.of.groups.get(number), self.of.dtls.get(number))
            for number, link in enumerate(self.of.links)
        )
        return *sockets, *map(_line_numbers, self.of.lines)

    @property
    def permit_left_s(self) -> float | None:
        if not self.of.is_listed_only:
            return None
        return max(0.0, self.engine.operator.permitted_until - self._now)

    @property
    def join_left_s(self) -> float | None:
        if not self.of.is_listed_only:
            return None
        return max(0.0, self.engine.operator.joining_until - self._now)

    @property
    def shared_ids(self) -> list[SharedId]:
        text = self.of.peer_text
        return [
            SharedId(client=client_id, one=text(one), other=text(other))
            for client_id, one, other in self.engine.shared_ids.in_use(self._now)
        ]

    @property
    def journal(self) -> JournalNumbers:
        rates = self.of.throughput.rates
        return replace(self.of.journal(), in_per_s=rates.in_per_s, out_per_s=rates.out_per_s)

    @property
    def ingest(self) -> IngestNumbers:
        custody = self.engine.custody
        oldest, heard_at = next(iter(custody.kept), None), custody.last_received_at
        return IngestNumbers(
            is_on=custody.is_on,
            timeout_s=custody.timeout_s,
            kept=custody.kept.count,
            oldest_age_s=None if oldest is None else self._now - oldest.since,
            heard_age_s=None if heard_at == -inf else self._now - heard_at,
            refusal=custody.refusal,
            **asdict(custody.numbers),
        )

    @property
    def aside(self) -> AsideNumbers:
        engine = self.engine
        return aside_numbers(engine.uplink.aside, engine.upstream.caution, self._now)


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
    oldest = found.oldest_received_at
    look = JournalLook(
        found,
        sync_times,
        sync_times.quantiles(0.5, 0.99, 1.0),
        None if oldest is None else max(0.0, now - oldest),
        None if found.state is journal_side.JournalState.OK else error,
    )
    return read_from(JournalNumbers, look)


def _link_numbers(
    number: int, link: UdpLink, group: GroupLink | None, dtls: DtlsLink | None
) -> LinkNumbers:
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
        outside_networks=counters.outside_networks,
        dtls=None if dtls is None else _dtls_numbers(dtls),
        lost_address=link.lost_address,
    )


def _dtls_numbers(link: DtlsLink) -> DtlsNumbers:
    counters = link.counters
    return DtlsNumbers(
        sessions=link.session_count,
        half_open=link.handshake_count,
        handshakes=counters.handshakes,
        refused=dict(counters.refused),
        hellos=counters.hellos,
        hellos_dropped=counters.hellos_dropped,
        records_refused=counters.dropped,
        unsent=counters.unsent,
        sessions_ended=dict(counters.sessions_ended),
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
