"""The admin server with all that it shows, from the parts of the daemon.

Microdot and what is behind the page are imported here, when a page is wanted: they take 30 ms.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway.admin.audit import Audit
from gateway.admin.buffer_reader import BufferReader
from gateway.admin.client_queries import ClientQueries
from gateway.admin.commands import Commands
from gateway.admin.event_log import EventLog
from gateway.admin.http.local_socket import LocalSocket
from gateway.admin.http.passwords import is_hash
from gateway.admin.http.server import AdminServer
from gateway.admin.http.sign_in import OPERATOR, Accounts, Role, Token, User, user_of_password
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
from gateway.config.settings import SOCKET_FILE, Settings
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
    audit: Audit


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
        accounts=accounts_of(shown.in_force),
        hosts=settings.admin.hosts,
        audit=shown.audit,
        tls=shown.in_force.credentials.page,
        socket=_socket(settings),
    )
    return AdminServer(listen, sources, backlog=page_backlog(settings))


def accounts_of(in_force: CurrentConfiguration) -> Accounts:
    """Who may sign in, and what may be seen without."""
    settings = in_force.configuration.settings
    users = {
        user.name: User(Role[user.role.upper()], user.password) for user in settings.admin_user
    }
    password = in_force.credentials.admin_password
    if password is not None and OPERATOR not in users:
        text = password.decode(errors="replace")
        users[OPERATOR] = User(Role.OPERATOR, text) if is_hash(text) else user_of_password(password)
    tokens = {
        token.token: Token(token.name, Role[token.role.upper()]) for token in settings.admin_token
    }
    return Accounts(users, tokens, Role.VIEWER if settings.shows_all else Role.NONE)


def _socket(settings: Settings) -> LocalSocket | None:
    admin = settings.admin
    places = settings.socket_places
    if not places:
        return None
    runtime = os.environ.get("RUNTIME_DIRECTORY")
    of_service = admin.socket == "auto" and runtime
    path = Path(runtime or "") / SOCKET_FILE if of_service else places[-1]
    return LocalSocket(path.absolute(), admin.socket_group, Role[admin.socket_role.upper()])
