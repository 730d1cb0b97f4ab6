"""Builds every part, starts and stops them in order; the only file that knows all of them.

Start: state folder and epoch, journal, engine, sockets to the sensors, admin page, connection to
the broker. What cannot be had at the start ends the daemon with one line and an exit code; the
broker may be away at any time. Stop (SIGTERM, SIGINT): no more from the sensors, DISCONNECT to the
broker, what is pending to the journal, the last acknowledgements to the sensors, page, state
folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from ssl import SSLContext
from typing import TYPE_CHECKING

from gateway.admin.audit import AuditEntry, AuditLog
from gateway.admin.client_queries import ClientQueries
from gateway.admin.event_log import EventLog
from gateway.admin.http.listening import AdminError
from gateway.admin.log.logs import Level, configure, log_everything, log_numbers
from gateway.admin.log.tail import LogTail
from gateway.admin.metrics.lag import LagMeter
from gateway.admin.snapshot import Snapshot
from gateway.app.build_presence import PresenceParts, presence_publisher
from gateway.app.build_watch import watch_of
from gateway.app.core_options import (
    access_rules,
    client_bindings,
    engine_options,
    protection_options,
)
from gateway.app.credentials import USUAL_CONFIG, read_credentials
from gateway.app.exit_codes import ExitCode
from gateway.app.listeners import SensorLinks
from gateway.app.memory import settle
from gateway.app.memory_watch import MemoryWatch
from gateway.app.service.checking import blocking_check
from gateway.app.service.ending import ADMIN_UNTIL_S, Shutdown
from gateway.app.service.hangup import outlive_reload
from gateway.app.service.notify import ServiceManager
from gateway.app.service.own_process import Scheduling
from gateway.app.service.reload import changes
from gateway.app.service.reloading import READ_S_MAX, CurrentConfiguration
from gateway.app.service.status_line import status_line
from gateway.app.service.supervision import Supervision
from gateway.app.shell import Shell
from gateway.app.stores import Committers, Stores, open_stores
from gateway.app.watch import Watch
from gateway.config import Configuration, HostPort
from gateway.config.regular_file import last_opened
from gateway.config.settings import Settings, UpstreamSettings
from gateway.config.spelling import dotted
from gateway.core.engine import Engine, EngineOptions
from gateway.host.compiled import Form
from gateway.host.limits import LimitError, doubts, write_no_core
from gateway.host.needs import provide
from gateway.host.side_thread import OverdueError, within
from gateway.host.slow_callbacks import Callback
from gateway.host.version import version
from gateway.presence.numbers import PresenceNumbers
from gateway.presence.publisher import PresencePublisher
from gateway.storage.journal.options import JournalError
from gateway.storage.state.errors import StateError
from gateway.transports.broker.link import LASTS_S, BrokerLink
from gateway.transports.clock import machine_now, now, pauses, unix_ms_at_zero
from gateway.transports.errors import LinkError, NotAllowedError
from gateway.transports.heartbeat import Heartbeat
from gateway.transports.places import (
    forwarders_within,
    host_of,
    is_same_host,
    none_may,
    nowhere,
)

if TYPE_CHECKING:
    from gateway.admin.http.server import AdminServer
    from gateway.core.protection.protection import Protection
    from gateway.presence.sampler import Sampler

log = logging.getLogger("tidegate")

HOUSEKEEPING_S = 1.0
# At a start: with a disk that takes longer, protected packets are dropped until it has them.
COUNTERS_S_MAX = 1.0
NOTHING_ASKED: Mapping[str, object] = {}


def serve(
    configuration: Configuration,
    manager: ServiceManager,
    load: Callable[[], Configuration],
    form: Form,
) -> int:
    """Run until told to stop; returns the exit code. `load` reads the configuration again."""
    outlive_reload()
    write_no_core()
    settings, log_tail = configuration.settings, LogTail()
    _configure_log(settings, log_tail)
    log_everything()
    level = logging.WARNING if form in (Form.STALE, Form.BROKEN) else logging.INFO
    log.log(level, "Tidegate %s (%s), gateway %s", version(), form.value, settings.gateway.name)
    for warning in (*configuration.warnings, *doubts()):
        log.warning("%s", warning)
    try:
        log.debug("%d files may be open (RLIMIT_NOFILE)", provide(settings))
        config = _file_of(configuration)
        credentials = within(READ_S_MAX, lambda: read_credentials(settings, config), "credentials")
    except OverdueError:
        log.error("%s could not be read within %.0f s", last_opened(), READ_S_MAX)
        return ExitCode.UNAVAILABLE  # a supervisor tries again
    except LimitError as error:
        log.error("%s", error)
        return ExitCode.UNAVAILABLE
    except NotAllowedError as error:
        log.error("%s", error)
        return ExitCode.PERMISSION
    except LinkError as error:
        log.error("%s", error)
        return ExitCode.CONFIGURATION
    manager.status("reading the journal")
    # What a previous run left is a million objects and no garbage: to look for some among them
    # again and again is a third of the time that it takes. Until `settle`.
    gc.disable()
    try:
        return _serve_from_disk(
            CurrentConfiguration(configuration, credentials), manager, load, log_tail
        )
    except LimitError as error:  # reached only now, such as by other threads of the same user
        log.error("%s", error)
        return ExitCode.UNAVAILABLE
    finally:
        gc.enable()


def _file_of(configuration: Configuration) -> Path:
    """The file that says where the page listens, or the usual one."""
    origin = configuration.origins.get("admin.listen")
    return Path(origin.source) if origin is not None and origin.line else USUAL_CONFIG


def _serve_from_disk(
    in_force: CurrentConfiguration,
    manager: ServiceManager,
    load: Callable[[], Configuration],
    log_tail: LogTail,
) -> int:
    try:
        stores = open_stores(in_force.configuration.settings)
    except (StateError, JournalError) as error:
        log.error("%s", error.strerror)
        is_permission = isinstance(error.__cause__, PermissionError)
        return ExitCode.PERMISSION if is_permission else ExitCode.CANNOT_CREATE
    ending = Shutdown()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_serve(in_force, stores, manager, load, log_tail, ending))
    finally:
        stores.release()
        ending.over()


def _configure_log(settings: Settings, log_tail: LogTail) -> None:
    configure(settings.log.level, settings.log.format)
    if settings.admin.listen is not None:
        logging.getLogger().addHandler(log_tail)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is a wheel for it: 1.5 times the messages for the same CPU."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None


@dataclass(slots=True)
class _Parts:
    """All that runs, in the order in which it is started; stopped the other way round."""

    engine: Engine
    event_log: EventLog
    shell: Shell
    committers: Committers
    snapshot: Snapshot
    links: SensorLinks
    lag: LagMeter
    heartbeat: Heartbeat
    admin: AdminServer | None
    sampler: Sampler | None
    publisher: PresencePublisher
    broker: BrokerLink
    log_tail: LogTail
    scheduling: Scheduling
    watch: Watch
    memory: MemoryWatch
    audit: AuditLog
    run: int | None  # see `StateFolder.run`
    saving: asyncio.Future[None] | None = None  # of the counters of protected packets

    async def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Raises LinkError or AdminError with a sentence for the operator."""
        self.publisher.start(loop)
        if self.engine.protection is not None:
            await asyncio.wait(
                [self._protect_when_saved(self.engine.protection)], timeout=COUNTERS_S_MAX
            )
        self.links.open(loop)
        self.lag.start()
        if self.admin is not None:
            await self.admin.start()
            where = HostPort(*self.admin.listening_on)
            log.info("status page on %s://%s", self.admin.scheme, where)
        self.broker.start(loop)

    async def stop(self, ending: Shutdown) -> None:
        """Each within its time: whatever hangs is left behind."""
        ending.begin()
        self.publisher.stop()
        # What the broker or the journal still takes is acknowledged: its sensor would say it again
        # to the next run, which may not know it any more.
        self.shell.deafen()
        await self.committers.flush(ending)
        self.shell.stop()
        self.shell.save_counters()
        await self.broker.stop()
        await self.committers.stop(ending)
        self.links.close()
        await ending.within(self.publisher.flushed(), ADMIN_UNTIL_S)
        if self.admin is not None:
            await ending.within(self.admin.stop(), ADMIN_UNTIL_S)
        await ending.within(self.audit.stop(), ADMIN_UNTIL_S)
        self.lag.stop()
        self.heartbeat.stop()
        self.event_log.close()

    def set_log_level(self, in_force: CurrentConfiguration, level: Level) -> None:
        """From an operator, by the broker."""
        log.warning("the log level is %s from here on, by a command from the broker", level)
        self.audit.put(_by_broker("log_level", {"level": level}))
        self._use(in_force.set_log_level(level), in_force)

    def join(self, seconds: float) -> None:
        """From an operator, by the broker."""
        log.warning("new sensors may join for %.0f s, by a command from the broker", seconds)
        self.audit.put(_by_broker("join", {"seconds": seconds}))
        self.engine.operator.open_joining(now() + seconds)

    def keep_house(self) -> None:
        """Each second: follow the wall clock, and say what was held back of the log."""
        self.scheduling.beat()
        self.links.look()
        self.engine.set_wall_clock(unix_ms_at_zero())
        self.committers.set_wall_clock(unix_ms_at_zero())
        self.snapshot.note_throughput()
        self.shell.set_serving(self.snapshot.serving_problem())
        self.event_log.flush()
        self.watch.look(now())
        self.memory.look()
        self.shell.slow.beat(now())
        if self.sampler is not None:
            self.sampler.beat()

    def apply(self, old: CurrentConfiguration, new: CurrentConfiguration, via: str) -> None:
        """What was read again; `via`: signal, or process where a file was another one."""
        keys = [str(dotted(each.path)) for each in changes(old.configuration, new.configuration)]
        self.audit.put(AuditEntry("process", "operator", via, "", "reload", {"keys": keys}))
        self._use(old, new)

    def _use(self, old: CurrentConfiguration, new: CurrentConfiguration) -> None:
        """What of a configuration can change while the gateway runs; see app/service/reload.py."""
        before, after = old.configuration.settings, new.configuration.settings
        if after.log != before.log:
            _configure_log(after, self.log_tail)
        if after.admission.listed != before.admission.listed:
            listed = frozenset(after.admission.listed)
            self.shell.on_asked(self.engine.operator.list_only(listed))
        if after.binding != before.binding:
            self.shell.on_asked(self.engine.operator.use_bindings(client_bindings(after)))
        if (after.access, after.security) != (before.access, before.security):
            self._use_access(after)
        if new.credentials.keys is not None and self.engine.protection is None:
            self._begin_protection(new)
        if self.admin is not None:
            from gateway.app.build_admin import accounts_of

            self.admin.use_accounts(accounts_of(new))
            page = new.credentials.page
            if page is not None and new.credentials.page_files != old.credentials.page_files:
                self.admin.use_certificate(page)
        if (new.credentials.dtls, after.dtls) != (old.credentials.dtls, before.dtls):
            self.links.use(new.credentials)
        if _of_broker(old) != _of_broker(new):
            self.engine.upstream.use(after.upstream.username, new.credentials.password)
            self.broker.use(
                new.credentials.tls,
                "reloaded: user name, password or certificates are others",
                server_name=after.upstream.server_name,
                fingerprints=after.upstream.fingerprints,
            )

    def _use_access(self, after: Settings) -> None:
        if after.access:
            self.event_log.list_refusals()
        narrows = after.security.subscribe_wider == "narrow"
        outputs = self.engine.operator.use_access(access_rules(after), narrows=narrows)
        self.shell.on_asked(outputs)

    def _begin_protection(self, new: CurrentConfiguration) -> None:
        """The first device has a key."""
        options = protection_options(new.configuration.settings, new.device_keys, self.run)
        assert options is not None, "there are keys"
        self.shell.on_asked(self.engine.begin_protection(options))
        assert self.engine.protection is not None
        self._protect_when_saved(self.engine.protection)
        log.info("protected packets are taken from now on")

    def _protect_when_saved(self, protection: Protection) -> asyncio.Future[None]:
        """Once the counters are on the disk, or it refuses them. One that hangs is waited for."""
        protection.hold()
        self.saving = asyncio.ensure_future(self.committers.state.flush())
        self.saving.add_done_callback(lambda _: protection.release())
        return self.saving


def _by_broker(what: str, asked: Mapping[str, object] = NOTHING_ASKED) -> AuditEntry:
    return AuditEntry("broker", "operator", "mqtt", "", what, asked)


def _of_broker(in_force: CurrentConfiguration) -> tuple[object, ...]:
    credentials = in_force.credentials
    upstream = in_force.configuration.settings.upstream
    of_tls = upstream.tls_min, upstream.fingerprints, upstream.server_name, upstream.alpn
    return upstream.username, credentials.password, credentials.tls_files, of_tls


async def _serve(
    in_force: CurrentConfiguration,
    stores: Stores,
    manager: ServiceManager,
    load: Callable[[], Configuration],
    log_tail: LogTail,
    ending: Shutdown,
) -> int:
    loop, code = asyncio.get_running_loop(), ExitCode.OK
    stop_requested = asyncio.Event()

    def restart() -> None:
        log.warning("ends to be started again, by a command from the broker")
        parts.audit.put(_by_broker("restart"))
        ending.code = ExitCode.RESTART
        stop_requested.set()

    parts = _build(in_force, stores, log_tail, loop, restart)
    ending.report = parts.committers.left_behind
    supervision = Supervision(
        manager=manager,
        in_force=in_force,
        fault=parts.watch.fault,
        status=partial(status_line, parts.snapshot),
        load=load,
        apply=parts.apply,
        now=machine_now,  # systemd's watchdog counts on while this process does not run
    )
    check = blocking_check(os.environ)
    parts.shell.restore(stores.folder.saved, *stores.readings())
    parts.keep_house()
    loop.add_signal_handler(signal.SIGTERM, ending.on_signal, stop_requested.set)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as for `gateway &` in a script
        loop.add_signal_handler(signal.SIGINT, ending.on_signal, stop_requested.set)
    try:
        await parts.start(loop)
        settle()
        if check is not None:
            check.arm()
        await _until_stopped(stop_requested, loop, parts, supervision)
    except (LinkError, AdminError) as error:
        log.error("%s", error)
        code = ExitCode.UNAVAILABLE
    finally:
        supervision.stopping()
        await parts.stop(ending)
        if check is not None:
            check.disarm()
        if ending.is_overdue:
            ending.exit_now(code or ending.code, "not all of it has ended")
    if code is ExitCode.OK:
        log.info("stopped")
        code = ExitCode(ending.code)
    return code


def _build(
    in_force: CurrentConfiguration,
    stores: Stores,
    log_tail: LogTail,
    loop: asyncio.AbstractEventLoop,
    restart: Callable[[], None],
) -> _Parts:
    settings, credentials = in_force.configuration.settings, in_force.credentials
    # A gateway whose devices have no keys protects nothing, and imports nothing for it.
    has_keys = credentials.keys is not None or settings.requires_protection
    device_keys = in_force.device_keys if has_keys else None
    options = engine_options(
        settings, stores.epoch, credentials.password, stores.folder.run, device_keys
    )
    engine = Engine(_with_places(options, settings), pauses)
    links = SensorLinks()
    event_log = EventLog(peer_text=links.peer_text, now=now)
    if settings.access or settings.admission.permit == "listed":
        event_log.list_refusals()
    shell = Shell(engine, event_log.record, loop)
    links.build(settings, shell, credentials, in_force.device_keys)
    options.session.access.identity_of = links.identities()
    broker = _broker_link(settings.upstream, shell, credentials.tls)
    committers = Committers(stores=stores, settings=settings, shell=shell, loop=loop)
    shell.connect_links(links.all, links.groups, links.has_unread)
    shell.connect_broker(broker)
    shell.connect_stores(committers.journal, committers.state)
    lag = LagMeter(loop)
    publisher: PresencePublisher  # looks at all others, and two of them at it
    watch = watch_of(
        engine, committers=committers, links=links, broker=broker, notices=lambda: publisher.mark()
    )
    memory = MemoryWatch(settings.limits.memory_percent_max, engine.set_memory_scarce)
    snapshot = _snapshot(
        settings,
        engine,
        links,
        broker,
        shell,
        committers,
        lag,
        lambda: publisher.numbers(),
        watch,
        memory,
        in_force,
    )
    sampler = _sampler(settings, engine)
    admin = None
    audit = AuditLog(settings.gateway.state_dir)
    if settings.admin.listen is not None and sampler is not None:
        # Imported only when wanted.
        from gateway.app.build_admin import AdminParts, admin_server

        shown = AdminParts(
            in_force=in_force,
            engine=engine,
            shell=shell,
            snapshot=snapshot,
            client_queries=_client_queries(settings, engine, links),
            links=links,
            event_log=event_log,
            lag=lag,
            log=log_tail,
            sampler=sampler,
            watch=watch,
            clear_retained=lambda client_id: publisher.clear(client_id),
            audit=audit.record,
        )
        admin = admin_server(settings.admin.listen, shown)
    parts = PresenceParts(
        in_force=in_force,
        engine=engine,
        shell=shell,
        snapshot=snapshot,
        links=links,
        event_log=event_log,
        sampler=sampler,
        restart=restart,
        set_log_level=lambda level: built.set_log_level(in_force, level),
        join=lambda seconds: built.join(seconds),
    )
    publisher = presence_publisher(parts)
    shell.report_to(publisher.record, None if sampler is None else sampler.latest.receive)
    built = _Parts(
        engine=engine,
        event_log=event_log,
        shell=shell,
        committers=committers,
        snapshot=snapshot,
        links=links,
        lag=lag,
        heartbeat=Heartbeat(shell.look_for_pause),
        admin=admin,
        sampler=sampler,
        publisher=publisher,
        broker=broker,
        log_tail=log_tail,
        scheduling=Scheduling(settings.gateway.scheduling),
        watch=watch,
        memory=memory,
        audit=audit,
        run=stores.folder.run,
    )
    return built


def _sampler(settings: Settings, engine: Engine) -> Sampler | None:
    """Readings are looked at for the page and for Home Assistant."""
    for_home_assistant = settings.home_assistant.enable
    if settings.admin.listen is None and not for_home_assistant:
        return None
    from gateway.presence.latest import Latest
    from gateway.presence.sampler import Sampler

    return Sampler(engine, Latest(), hears_all=for_home_assistant)


def _snapshot(
    settings: Settings,
    engine: Engine,
    links: SensorLinks,
    broker: BrokerLink,
    shell: Shell,
    committers: Committers,
    lag: LagMeter,
    notices: Callable[[], PresenceNumbers],
    watch: Watch,
    memory: MemoryWatch,
    in_force: CurrentConfiguration,
) -> Snapshot:
    upstream = settings.upstream
    return Snapshot(
        engine=engine,
        links=links.udp,
        dtls=links.dtls,
        lines=links.serial,
        broker=broker,
        broker_url=f"{'mqtts' if upstream.tls else 'mqtt'}://{upstream.host}:{upstream.port}",
        frames_sent=shell.sent,
        event_loop_lag_s=lambda: lag.worst_s,
        started_at=now(),
        now=now,
        journal=committers.journal_numbers,
        state=committers.state_numbers,
        memory=memory.numbers,
        notices=notices,
        standstills=lambda: watch.found,
        unmoved_s=lambda: watch.unmoved_s,
        configuration_doubt=in_force.doubt,
        restart_wanted=in_force.restart_wanted,
        log=log_numbers,
        slow_callbacks=lambda: shell.slow.counts,
        groups=links.multicast,
        is_journal_used=settings.stores_readings,
        drops_oldest=settings.journal.when_full == "drop_oldest",
        is_listed_only=settings.admission.permit == "listed",
        pauses=pauses,
        peer_text=links.peer_text,
    )


def _with_places(options: EngineOptions, settings: Settings) -> EngineOptions:
    """What only the links know of addresses."""
    options = replace(options, host_of=host_of)
    forwarders = settings.forwarders
    if not forwarders.allow:
        options = replace(options, may_forward=none_may)
    elif forwarders.listed:
        options = replace(options, may_forward=forwarders_within(forwarders.listed))
    match settings.mqtt_sn.rebind_sleepers:
        case "same_host":
            options = replace(options, may_rebind=is_same_host)
        case "never":
            options = replace(options, may_rebind=nowhere)
    return options


def _broker_link(upstream: UpstreamSettings, shell: Shell, tls: SSLContext | None) -> BrokerLink:
    return BrokerLink(
        upstream.host,
        upstream.port,
        tls=tls,
        on_open=shell.on_open,
        on_bytes=shell.on_bytes,
        on_closed=shell.on_closed,
        on_room=shell.on_room,
        connect_timeout_s=upstream.connect_timeout_s,
        reconnect_delay_s_min=upstream.reconnect_delay_s_min,
        reconnect_delay_s_max=upstream.reconnect_delay_s_max,
        lasts_s=min(upstream.keep_alive_s or LASTS_S, LASTS_S),
        server_name=upstream.server_name,
        fingerprints=upstream.fingerprints,
    )


def _client_queries(settings: Settings, engine: Engine, links: SensorLinks) -> ClientQueries:
    return ClientQueries(
        engine=engine,
        links=links.names,
        peer_text=links.peer_text,
        now=now,
        predefined=settings.predefined_topics,
        clients_predefined={
            client_id: client.predefined_topics for client_id, client in settings.clients.items()
        },
    )


async def _until_stopped(
    stop_requested: asyncio.Event,
    loop: asyncio.AbstractEventLoop,
    parts: _Parts,
    supervision: Supervision,
) -> None:
    loop.add_signal_handler(signal.SIGHUP, supervision.on_hangup, stop_requested.set)
    supervision.started()
    parts.heartbeat.start(loop)
    while not stop_requested.is_set():
        began = time.monotonic()
        parts.keep_house()
        supervision.beat()
        supervision.look_at_files()
        parts.shell.slow.ended(Callback.HOUSEKEEPING, began)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HOUSEKEEPING_S):
                await stop_requested.wait()
