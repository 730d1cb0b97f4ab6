"""The admin server with all that it shows, from the parts of the daemon.

Microdot and what is behind the page are imported here, when a page is wanted: they take 30 ms.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.admin.buffer_reader import BufferReader
from gateway.admin.client_queries import Roster
from gateway.admin.commands import Clerk
from gateway.admin.event_log import News
from gateway.admin.http.server import AdminServer
from gateway.admin.http.sources import Sources
from gateway.admin.log.tail import LogTail
from gateway.admin.metrics.lag import LagMeter
from gateway.admin.snapshot import Census
from gateway.app.listeners import SensorLinks
from gateway.app.service.reloading import InForce
from gateway.app.shell import Shell
from gateway.app.watch import Watch
from gateway.config.listing import as_json
from gateway.core.engine import Engine
from gateway.host.needs import page_backlog
from gateway.host.version import version
from gateway.presence.sampler import Lookout
from gateway.transports.clock import now


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The parts that the page shows."""

    in_force: InForce
    engine: Engine
    shell: Shell
    census: Census
    roster: Roster
    links: SensorLinks
    news: News
    lag: LagMeter
    log: LogTail
    lookout: Lookout
    watch: Watch


def admin_server(listen: tuple[str, int], shown: Shown) -> AdminServer:
    settings, census, links = shown.in_force.configuration.settings, shown.census, shown.links
    checks = {
        "event_loop": shown.lag.check,
        "liveness": shown.watch.check,
        "journal": census.journal_failure,
        "backlog": census.backlog_failure,
        **links.checks(),
    }
    lookout = shown.lookout
    reader = BufferReader(settings.gateway)
    clerk = Clerk(
        engine=shown.engine,
        perform=shown.shell.on_asked,
        latest=lookout.latest,
        now=now,
        is_listed_only=settings.admission.permit == "listed",
        waiting=lambda: census.journal().depth,
        line_named=links.line_named,
    )
    sources = Sources(
        name=settings.gateway.name,
        version=version(),
        now=now,
        numbers=census.numbers,
        clients=shown.roster.clients,
        topics=shown.roster.topics,
        news=shown.news,
        checks=checks,
        ready_checks=links.checks() | {"journal": census.journal_failure},
        doubts={
            "journal": census.journal_doubt,
            "state": census.state_doubt,
            "configuration": shown.in_force.doubt,
            "log": census.log_doubt,
            **links.doubts(),
        },
        latest=lookout.latest,
        log=shown.log,
        slow=shown.shell.slow,
        configured=lambda: as_json(shown.in_force.configuration),
        pulse=lambda: (census.pulse(), shown.news.changes),
        looked_at=lookout.looked_at,
        peek=reader.peek,
        export=reader.export,
        operating=clerk,
        password=shown.in_force.credentials.admin_password,
        hosts=settings.admin.hosts,
    )
    return AdminServer(listen, sources, backlog=page_backlog(settings))
