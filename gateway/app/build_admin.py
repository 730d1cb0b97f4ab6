"""The admin server with all that it shows, from the parts of the daemon.

Microdot and what is behind the page are imported here, when a page is wanted: they take 30 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.admin.buffer_reader import BufferReader
from gateway.admin.client_queries import ClientQueries
from gateway.admin.commands import Commands
from gateway.admin.event_log import EventLog
from gateway.admin.http.server import AdminServer
from gateway.admin.http.sources import Sources
from gateway.admin.log.tail import LogTail
from gateway.admin.metrics.lag import LagMeter
from gateway.admin.numbers import numbers_of
from gateway.admin.snapshot import Look, Snapshot
from gateway.app.listeners import SensorLinks
from gateway.app.service.reloading import CurrentConfiguration
from gateway.app.shell import Shell
from gateway.app.watch import Watch
from gateway.config.listing import as_json
from gateway.core.engine import Engine
from gateway.core.state_records import ClientId
from gateway.host.needs import page_backlog
from gateway.host.version import version
from gateway.presence.sampler import Sampler
from gateway.transports.clock import now


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminParts:
    """The parts that the page shows."""

    in_force: CurrentConfiguration
    engine: Engine
    shell: Shell
    snapshot: Snapshot
    client_queries: ClientQueries
    links: SensorLinks
    event_log: EventLog
    lag: LagMeter
    log: LogTail
    sampler: Sampler
    watch: Watch
    clear_retained: Callable[[ClientId], None]


def admin_server(listen: tuple[str, int], shown: AdminParts) -> AdminServer:
    settings, snapshot, links = shown.in_force.configuration.settings, shown.snapshot, shown.links
    checks = {
        "event_loop": shown.lag.check,
        "liveness": shown.watch.fault,
        **links.checks(),
    }
    sampler = shown.sampler
    reader = BufferReader(settings.gateway)
    commands = Commands(
        engine=shown.engine,
        perform=shown.shell.on_asked,
        latest=sampler.latest,
        now=now,
        is_listed_only=settings.admission.permit == "listed",
        waiting=lambda: snapshot.journal().depth,
        line_named=links.line_named,
        clear_retained=shown.clear_retained,
    )
    sources = Sources(
        name=settings.gateway.name,
        version=version(),
        now=now,
        numbers=lambda: numbers_of(Look(snapshot)),
        clients=shown.client_queries.clients,
        topics=shown.client_queries.topics,
        news=shown.event_log,
        checks=checks,
        ready_checks=links.checks() | {"journal": snapshot.journal_failure},
        failures={
            "liveness": shown.watch.check,
            "journal": snapshot.journal_failure,
            "backlog": snapshot.backlog_failure,
        },
        doubts={
            "journal": snapshot.journal_doubt,
            "state": snapshot.state_doubt,
            "configuration": shown.in_force.doubt,
            "log": snapshot.log_doubt,
            "memory": snapshot.memory_doubt,
            "broker": snapshot.broker_doubt,
            **links.doubts(),
        },
        latest=sampler.latest,
        log=shown.log,
        slow=shown.shell.slow,
        configured=lambda: as_json(shown.in_force.configuration),
        pulse=lambda: (snapshot.pulse(), shown.event_log.changes),
        looked_at=sampler.pages_open,
        peek=reader.peek,
        export=reader.export,
        aside=lambda: list(shown.engine.uplink.aside.records.values()),
        operating=commands,
        password=shown.in_force.credentials.admin_password,
        hosts=settings.admin.hosts,
    )
    return AdminServer(listen, sources, backlog=page_backlog(settings))
