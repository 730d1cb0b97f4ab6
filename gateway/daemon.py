"""Builds every part, starts and stops them in order; the only file that knows all of them.

Start: state folder and epoch, engine, sockets to the sensors, admin page, connection to the
broker. What cannot be had at the start ends the daemon with one line and an exit code; the broker
may be away at any time. Stop (SIGTERM, SIGINT): no more from the sensors, goodbye to the broker,
page, state folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import Callable
from functools import partial
from ssl import SSLContext

from gateway.assembly import datagram_bytes_max, engine_rules
from gateway.cli.exit_codes import ExitCode
from gateway.config import Configuration
from gateway.config.settings import Settings, UpstreamSettings
from gateway.effects import Effect
from gateway.engine import Engine
from gateway.links.broker import BrokerLink
from gateway.links.clock import unix_ms_at_zero
from gateway.links.errors import LinkError
from gateway.links.tls import client_context
from gateway.links.udp import UdpLink
from gateway.shell import Shell
from gateway.state.epoch import StateError, StateFolder, open_state

log = logging.getLogger("tidegate")

HOUSEKEEPING_S = 1.0

# The default looks at everything after a few thousand new objects; with 100,000 sessions one look
# takes a third of a second. The core makes no reference cycles, so there is little to find.
GC_THRESHOLD = (100_000, 50, 50)


def serve(configuration: Configuration) -> int:
    """Run until told to stop; returns the exit code."""
    settings = configuration.settings
    logging.basicConfig(level=settings.log.level.upper())
    for warning in configuration.warnings:
        log.warning("%s", warning)
    try:
        state = open_state(settings.gateway.state_dir)
    except StateError as error:
        log.error("%s", error.strerror)
        is_permission = isinstance(error.__cause__, PermissionError)
        return ExitCode.PERMISSION if is_permission else ExitCode.CANNOT_CREATE
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_serve(settings, state))
    finally:
        state.release()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is a wheel for it: 1.5 times the messages for the same CPU."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None


async def _serve(settings: Settings, state: StateFolder) -> int:
    loop = asyncio.get_running_loop()
    try:
        password = _password(settings.upstream)
        tls = _tls(settings.upstream)
    except LinkError as error:
        log.error("%s", error)
        return ExitCode.CONFIGURATION
    engine = Engine(engine_rules(settings, state.epoch, password))
    shell = Shell(engine, _tell, loop)
    links = _udp_links(settings, shell)
    shell.links = links
    broker = _broker_link(settings.upstream, shell, tls)
    shell.broker = broker
    try:
        for link in links:
            link.open(loop)
            log.info("listening for sensors on udp %s port %d", *link.listening_on)
    except LinkError as error:
        log.error("%s", error)
        return ExitCode.UNAVAILABLE
    engine.set_wall_clock(unix_ms_at_zero())
    broker.start(loop)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    await _until_told(loop, engine)
    for link in links:
        link.close()
    shell.stop()
    await broker.stop()
    log.info("stopped")
    return ExitCode.OK


def _tell(effect: Effect) -> None:
    log.info("%s", effect)


def _udp_links(settings: Settings, shell: Shell) -> list[UdpLink]:
    return [
        UdpLink(
            udp.listen,
            partial(shell.on_datagrams, number),
            receive_buffer_bytes=udp.receive_buffer_bytes,
            tick_ms_max=udp.tick_ms_max,
            datagram_bytes_max=datagram_bytes_max(settings),
        )
        for number, udp in enumerate(settings.udp)
    ]


def _broker_link(upstream: UpstreamSettings, shell: Shell, tls: SSLContext | None) -> BrokerLink:
    return BrokerLink(
        upstream.host,
        upstream.port,
        tls=tls,
        on_open=shell.on_open,
        on_bytes=shell.on_bytes,
        on_closed=shell.on_closed,
        connect_timeout_s=upstream.connect_timeout_s,
        reconnect_delay_s_min=upstream.reconnect_delay_s_min,
        reconnect_delay_s_max=upstream.reconnect_delay_s_max,
    )


def _password(upstream: UpstreamSettings) -> bytes | None:
    if upstream.password_file is None:
        return None
    try:
        return upstream.password_file.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise LinkError(
            f"upstream.password_file {upstream.password_file} cannot be read: {error.strerror}"
        ) from error


def _tls(upstream: UpstreamSettings) -> SSLContext | None:
    if not upstream.tls:
        return None
    return client_context(upstream.ca_file, upstream.cert_file, upstream.key_file)


async def _until_told(loop: asyncio.AbstractEventLoop, engine: Engine) -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    while not told.is_set():
        engine.set_wall_clock(unix_ms_at_zero())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), HOUSEKEEPING_S)
