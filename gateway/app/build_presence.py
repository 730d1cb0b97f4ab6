"""The presence publisher with its queue, from the parts of the daemon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.admin.event_log import EventLog
from gateway.admin.snapshot import Snapshot
from gateway.app.listeners import SensorLinks
from gateway.app.shell import Shell
from gateway.config.settings import Settings
from gateway.core.engine import Engine
from gateway.core.state_records import ClientId
from gateway.core.values import Peer
from gateway.host.version import version
from gateway.presence.availability import Availability
from gateway.presence.documents import utc
from gateway.presence.line_file import in_thread
from gateway.presence.publisher import PresencePublisher
from gateway.presence.queue import PresenceQueue
from gateway.presence.retained_ledger import RetainedLedgerFile
from gateway.presence.sampler import Sampler
from gateway.presence.standing import Standing
from gateway.presence.topics import Topics
from gateway.transports.clock import machine_now, unix_ms_at_zero


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceParts:
    """The parts that presence and statistics are about."""

    settings: Settings
    engine: Engine
    shell: Shell
    snapshot: Snapshot
    links: SensorLinks
    event_log: EventLog
    sampler: Sampler | None


def presence_publisher(parts: PresenceParts) -> PresencePublisher:
    settings = parts.settings
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
            visitors=frozenset(map(ClientId, settings.presence.visitors)),
            visitor_available_s=settings.presence.visitor_available_s,
            pending=pending,
        )
    announcements, values, records = None, None, None
    if pending is not None:
        from gateway.app import build_homeassistant

        values = build_homeassistant.last_values_of(settings)
        announcements = build_homeassistant.announcements_of(settings, topics, values, pending)
        records = build_homeassistant.records_of(settings)
    saying = PresenceQueue(
        topics,
        RetainedLedgerFile(settings.gateway.state_dir, in_thread),
        board=board,
        announcements=announcements,
        values=values,
        stats=lambda: statistics(parts.snapshot, parts.event_log, board),
        stats_s=settings.presence.stats_s,
        will_delay_s=settings.upstream.will_delay_s,
    )
    publisher = PresencePublisher(
        engine=parts.engine,
        saying=saying,
        perform=parts.shell.on_asked,
        messages_per_s_max=settings.presence.messages_per_s_max,
        birth=settings.home_assistant.birth_topic,
        slow=parts.shell.slow,
        records=records,
    )
    if announcements is not None and parts.sampler is not None:
        publisher.listen_to(parts.sampler.latest)
    return publisher


def statistics(
    snapshot: Snapshot, event_log: EventLog, board: Availability | None
) -> dict[str, object]:
    """`tidegate/<name>/stats`. Nothing here goes through all sessions: `board` has counted them."""
    engine, journal, rates = snapshot.engine, snapshot.journal(), snapshot.traffic.rates
    document: dict[str, object] = {
        "at": utc(unix_ms_at_zero() / 1000 + machine_now()),
        "version": version(),
        "uptime_s": int(snapshot.uptime_s),
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
        "broker": {"connects": snapshot.broker.counters.connects},
    }
    if board is not None:
        document["clients"] = {each.value: board.counts.get(each, 0) for each in Standing}
    return document


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _link_of(links: SensorLinks) -> Callable[[Peer], str]:
    names = links.names

    def link_of(peer: Peer) -> str:
        return names[peer.link] if 0 <= peer.link < len(names) else ""

    return link_of
