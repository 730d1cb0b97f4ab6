"""The presence publisher with its queue, from the parts of the daemon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.admin.event_log import EventLog
from gateway.admin.log.logs import Level
from gateway.admin.snapshot import Snapshot
from gateway.app.listeners import SensorLinks
from gateway.app.service.reloading import CurrentConfiguration
from gateway.app.shell import Shell
from gateway.config.settings import PresenceClientSettings, Settings
from gateway.core.engine import Engine
from gateway.core.state_records import ClientId
from gateway.core.values import Peer
from gateway.host.version import version
from gateway.presence.availability import Availability, FixedTimes
from gateway.presence.documents import utc
from gateway.presence.line_file import in_thread
from gateway.presence.publisher import PresencePublisher
from gateway.presence.queue import PresenceQueue
from gateway.presence.retained_ledger import RetainedLedgerFile
from gateway.presence.sampler import Sampler
from gateway.presence.standing import Standing
from gateway.presence.topics import Topics
from gateway.transports.clock import machine_now, now, unix_ms_at_zero

if TYPE_CHECKING:
    from gateway.presence.homeassistant.identities import Identities
    from gateway.presence.retained_search import RetainedSearch

CLOCK_SET_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceParts:
    """The parts that presence and statistics are about."""

    in_force: CurrentConfiguration
    engine: Engine
    shell: Shell
    snapshot: Snapshot
    links: SensorLinks
    event_log: EventLog
    sampler: Sampler | None
    restart: Callable[[], None]
    set_log_level: Callable[[Level], None]
    join: Callable[[float], None]


def presence_publisher(parts: PresenceParts) -> PresencePublisher:
    settings = parts.in_force.configuration.settings
    topics = Topics(settings.upstream.topic_prefix, settings.gateway.name)
    is_announcing = settings.home_assistant.enable and parts.sampler is not None
    pending, board = None, None
    if is_announcing:
        from gateway.presence.pending_commands import PendingCommands

        pending = PendingCommands(parts.engine.sessions)
    if settings.presence.clients:
        board = Availability(
            parts.engine.sessions,
            topics,
            _link_of(parts.links),
            fixed=fixed_times(settings),
            visitor_available_s=settings.presence.visitor_available_s,
            pending=pending,
        )
    announcements, values, records, commands, identities = None, None, None, None, None
    if pending is not None:
        from gateway.app import build_homeassistant

        values = build_homeassistant.last_values_of(settings)
        assert board is not None, "a cross-check of the configuration"
        identities = build_homeassistant.identities_of(settings, topics, board)
        announcements = build_homeassistant.announcements_of(
            settings, topics, values, pending, identities
        )
        records = build_homeassistant.records_of(settings)
        if settings.home_assistant.gateway_commands:
            commands = build_homeassistant.commands_of(
                topics,
                parts.restart,
                parts.set_log_level,
                parts.snapshot.started_at,
                parts.join if settings.admission.permit == "listed" else None,
            )
    since = _Since()
    saying = PresenceQueue(
        topics,
        RetainedLedgerFile(settings.gateway.state_dir, in_thread),
        board=board,
        announcements=announcements,
        values=values,
        stats=lambda: statistics(parts, board, since),
        stats_s=settings.presence.stats_s,
        will_delay_s=settings.upstream.will_delay_s,
        search=lambda: _search(topics, identities),
        prefix=settings.home_assistant.discovery_prefix,
    )
    publisher = PresencePublisher(
        engine=parts.engine,
        saying=saying,
        perform=parts.shell.on_asked,
        messages_per_s_max=settings.presence.messages_per_s_max,
        birth=settings.home_assistant.birth_topic,
        slow=parts.shell.slow,
        records=records,
        commands=commands,
    )
    if announcements is not None and parts.sampler is not None:
        publisher.listen_to(parts.sampler.latest)
    return publisher


def fixed_times(settings: Settings) -> FixedTimes:
    usual_s = float(settings.presence.visitor_available_s)
    return FixedTimes(
        dict.fromkeys(map(ClientId, settings.presence.visitors), usual_s),
        [(each.client, _fixed_s(each, usual_s)) for each in settings.presence_client],
    )


def _fixed_s(given: PresenceClientSettings, usual_s: float) -> float | None:
    """One that is no visitor is unavailable at once."""
    if given.visitor is False:
        return 0.0
    if not given.available_s and given.visitor is None:
        return None
    return float(given.available_s or usual_s)


def _search(topics: Topics, identities: Identities | None) -> RetainedSearch:
    from gateway.presence.retained_search import RetainedSearch

    return RetainedSearch(topics, identities)


def _joining(snapshot: Snapshot) -> dict[str, str]:
    """Only where it can be opened: who reads it elsewhere would take OFF for closed."""
    if not snapshot.is_listed_only:
        return {}
    is_open = now() < snapshot.engine.operator.joining_until
    return {"permit_joining": "ON" if is_open else "OFF"}


def statistics(
    parts: PresenceParts, board: Availability | None, since: _Since
) -> dict[str, object]:
    """`tidegate/<name>/stats`. Nothing here goes through all sessions: `board` has counted them."""
    snapshot, event_log = parts.snapshot, parts.event_log
    accepted_at, machine_time = snapshot.broker.accepted_at, snapshot.pauses.machine_time
    engine, journal, rates = snapshot.engine, snapshot.journal(), snapshot.traffic.rates
    document: dict[str, object] = {
        "at": utc(unix_ms_at_zero() / 1000 + machine_now()),
        "version": version(),
        "uptime_s": int(snapshot.uptime_s),
        "log_level": parts.in_force.configuration.settings.log.level,
        **_joining(snapshot),
        "readings": {"taken": sum(engine.uplink.taken), "per_s": _rounded(rates.in_per_s)},
        "deliveries": {
            "given": sum(engine.downlink.delivered),
            "per_s": _rounded(rates.out_per_s),
        },
        "buffer": {
            "readings": journal.depth,
            "bytes": journal.used_bytes,
            "bytes_max": journal.budget_bytes,
            "fill": round(journal.fill, 3),
            "oldest_s": _rounded(journal.oldest_age_s) or 0,
        },
        "dropped": {reason.value: count for reason, count in event_log.dropped.items() if count},
        "broker": {
            "connects": snapshot.broker.counters.connects,
            "since": None if accepted_at is None else since.text(machine_time(accepted_at)),
        },
    }
    if board is not None:
        document["clients"] = {each.value: board.counts.get(each, 0) for each in Standing}
    return document


class _Since:
    """A time of ours as UTC. It stays as it was said while the clock is set by less than
    `CLOCK_SET_S`: else it would be another time now and then, by a second.
    """

    def __init__(self) -> None:
        self._unix_s = 0.0

    def text(self, machine_s: float) -> str:
        unix_s = unix_ms_at_zero() / 1000 + machine_s
        if abs(unix_s - self._unix_s) >= CLOCK_SET_S:
            self._unix_s = unix_s
        return utc(self._unix_s)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _link_of(links: SensorLinks) -> Callable[[Peer], str]:
    names = links.names

    def link_of(peer: Peer) -> str:
        return names[peer.link] if 0 <= peer.link < len(names) else ""

    return link_of
