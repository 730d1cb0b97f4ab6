"""All links to sensors, built from the settings: UDP first and then the serial lines, by number.

A link's number is its place in this list, by which the core knows it; its name (`udp0`, `serial0`)
is its place in the configuration, by which operators do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gateway.app.core_options import datagram_bytes_max
from gateway.app.shell import Group, Shell
from gateway.config.settings import SerialSettings, Settings, UdpSettings
from gateway.core.addresses import split, unprotected
from gateway.core.values import Peer
from gateway.host.side_thread import BusyError, NoThreadError, OverdueError, SideThread
from gateway.transports.clock import now
from gateway.transports.places import identities
from gateway.transports.udp.link import UdpLink, address_text
from gateway.transports.udp.multicast import GroupCallbacks, GroupLink

if TYPE_CHECKING:
    from gateway.app.credentials import Credentials
    from gateway.core.access.device_keys import DeviceKeys
    from gateway.core.access.gate import IdentityOf
    from gateway.transports.dtls.link import DtlsLink
    from gateway.transports.serial.port import SerialLink

log = logging.getLogger("tidegate")

OUTSIDE_LOG_S = 60.0
# Without refused handshakes: fewer are copies that a network makes, and late ones of a session.
RECORDS_REFUSED_TOLD = 100
DTLS_BYTES = 64  # around a message, at most
NAME_S_MAX = 2.0  # for a look at where a path leads

Check = Callable[[], str | None]


class SensorLinks:
    """`multicast` and `groups` are by link; a serial line is a group of those who are on it."""

    def __init__(self) -> None:
        self.udp: list[UdpLink] = []
        self.serial: list[SerialLink] = []
        self.dtls: dict[int, DtlsLink] = {}  # by link, in front of that of `udp`
        self.multicast: dict[int, GroupLink] = {}
        self.groups: dict[int, Group] = {}
        self._names = SideThread("names")
        self._outside: dict[int, int] = {}  # by link: how many were logged
        self._log_outside_at = 0.0
        # By link: when they are logged next, and records and handshakes that were.
        self._refusals: dict[int, tuple[float, int, Counter[str]]] = {}

    def build(
        self,
        settings: Settings,
        shell: Shell,
        credentials: Credentials,
        keys: Callable[[], DeviceKeys],
    ) -> None:
        """Raises LinkError for what DTLS needs and is not there."""
        bytes_max = datagram_bytes_max(settings)
        for number, udp in enumerate(settings.listeners):
            link = _udp_link(udp, number, shell, bytes_max, settings.limits.clients_max)
            self.udp.append(link)
            if udp.multicast is not None:
                self.multicast[number] = _group(self.udp[number], udp, number, shell)
        if any(udp.has_dtls for udp in settings.listeners):
            from gateway.app.build_dtls import dtls_links  # only when wanted

            self.dtls = dtls_links(settings, self.udp, shell, credentials, keys)
        self.groups.update(self.multicast)
        if settings.serial:
            self._build_lines(settings, shell, bytes_max)

    def _build_lines(self, settings: Settings, shell: Shell, bytes_max: int) -> None:
        """Imported only when wanted: it takes a tenth of all imports, and most have no line."""
        from gateway.transports.serial.port import LineGroup

        for place, line in enumerate(settings.serial):
            number = len(self.udp) + place
            link = _line(line, place, number, shell, bytes_max)
            self.serial.append(link)
            if line.advertise:
                self.groups[number] = LineGroup(link)

    # From the daemon

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Raises LinkError for an address that is not available; a line may come later."""
        for number, link in enumerate(self.udp):
            link.open(loop)
            with_what = " with DTLS" if number in self.dtls else ""
            log.info("listening for sensors on udp %s port %d%s", *link.listening_on, with_what)
        for group in self.multicast.values():
            group.open(loop)
        for line in self.serial:
            line.open(loop)

    def look(self) -> None:
        """Each second: addresses come and go under a socket that is bound to them."""
        for number, dtls in self.dtls.items():
            dtls.look()
            self._log_refusals(number, dtls)
        for number, link in enumerate(self.udp):
            self._log_outside(number, link)
            before, problem = link.lost_address, link.check_address()
            if problem is not None and before is None:
                log.warning("udp%d: %s", number, problem)
            elif problem is None and before is not None:
                log.info("udp%d: the address %s is back", number, link.listening_on[0])

    def _log_outside(self, number: int, link: UdpLink) -> None:
        """Once in a time, however many there are."""
        seen, count = self._outside.get(number, 0), link.counters.outside_networks
        if count == seen or now() < self._log_outside_at:
            return
        self._outside[number], self._log_outside_at = count, now() + OUTSIDE_LOG_S
        log.warning("udp%d: %d datagrams from outside its networks dropped", number, count - seen)

    def _log_refusals(self, number: int, link: DtlsLink) -> None:
        """Once in a time, however many there are."""
        at, records_told, told = self._refusals.get(number, (0.0, 0, Counter()))
        if now() < at:
            return
        records, refused = link.counters.dropped, Counter(link.counters.refused)
        since = refused - told
        if not since and records - records_told < RECORDS_REFUSED_TOLD:
            return
        self._refusals[number] = now() + OUTSIDE_LOG_S, records, refused
        log.warning(
            "udp%d: DTLS refused %d handshakes%s and %d records; see docs/security.md",
            number,
            since.total(),
            "".join(f", {reason} {count}" for reason, count in sorted(since.items())),
            records - records_told,
        )

    def close(self) -> None:
        for group in self.multicast.values():
            group.close()
        for link in self.all:
            link.close()

    def use(self, credentials: Credentials) -> None:
        """Certificates of DTLS are others now."""
        if credentials.dtls is not None:
            from gateway.app.build_dtls import use

            use(self.dtls, credentials.dtls)

    # From the shell

    def has_unread(self) -> bool:
        """Whether sensors have sent what was not read yet."""
        return any(link.mark() is not None for link in self.udp)

    # From those who show

    @property
    def all(self) -> list[UdpLink | DtlsLink | SerialLink]:
        if not self.dtls:
            return [*self.udp, *self.serial]
        fronts = [self.dtls.get(number, link) for number, link in enumerate(self.udp)]
        return [*fronts, *self.serial]

    def identities(self) -> IdentityOf:
        """How a peer is known: by its key or certificate, else by where it is."""
        by_place, dtls = identities(self.names), self.dtls
        if not dtls:
            return by_place

        def identity_of(link: int, address: bytes) -> str:
            secure = dtls.get(link)
            if secure is None or len(address) != secure.address_bytes:
                return by_place(link, address)
            return secure.identity_of(address)

        return identity_of

    @property
    def names(self) -> list[str]:
        return [*(f"udp{number}" for number, _ in enumerate(self.udp)), *self._lines]

    @property
    def _lines(self) -> dict[str, SerialLink]:
        return {line.name: line for line in self.serial}

    async def line_named(self, text: str) -> SerialLink | None:
        """By `serial0`, by its port, or by another name of that: /dev/ttyUSB0 for one by-id. None
        also for a path whose disk does not answer.
        """
        for line in self.serial:
            if text in (line.name, line.port, line.short_name):
                return line

        def same() -> SerialLink | None:
            path = os.path.realpath(text)
            return next((line for line in self.serial if os.path.realpath(line.port) == path), None)

        with contextlib.suppress(BusyError, OverdueError, NoThreadError):
            return await self._names.run(same, NAME_S_MAX)
        return None

    def peer_text(self, peer: Peer) -> str:
        lines = self.serial[peer.link - len(self.udp) :] if peer.link >= len(self.udp) else []
        link = lines[0] if lines else self.udp[peer.link]
        plain, sender_id = unprotected(peer.address, link.address_bytes)
        behind = split(plain, link.address_bytes)
        address, node_id = (plain, None) if behind is None else behind
        text = lines[0].short_name if lines else address_text(address)
        text += "" if node_id is None else f" node {node_id.hex()}"
        return text + (f" sender {sender_id.hex()}" if sender_id else "")

    def checks(self) -> dict[str, Check]:
        """What a restart would fix."""
        return {f"udp{number}": link.check for number, link in enumerate(self.udp)}

    def doubts(self) -> dict[str, Check]:
        """What it would not: networks and cables."""
        groups = {f"udp{number}_group": each.check for number, each in self.multicast.items()}
        addresses = {
            f"udp{number}_address": partial(getattr, link, "lost_address")
            for number, link in enumerate(self.udp)
        }
        return groups | addresses | {name: line.check for name, line in self._lines.items()}


def _udp_link(
    udp: UdpSettings, number: int, shell: Shell, bytes_max: int, peers_max: int
) -> UdpLink:
    return UdpLink(
        udp.listen,
        partial(shell.on_datagrams, number),
        receive_buffer_bytes=udp.receive_buffer_bytes,
        tick_ms_max=udp.tick_ms_max,
        busy_poll_ms_max=udp.busy_poll_ms_max,
        datagram_bytes_max=bytes_max + (DTLS_BYTES if udp.has_dtls else 0),
        shares_port=udp.multicast is not None,
        peers_max=peers_max,
        is_within=_is_within(udp),
    )


def _is_within(udp: UdpSettings) -> Callable[[bytes], bool] | None:
    """Imported only when wanted."""
    if not udp.networks:
        return None
    from gateway.transports.networks import hosts_within

    return hosts_within(udp.networks)


def _group(link: UdpLink, udp: UdpSettings, number: int, shell: Shell) -> GroupLink:
    assert udp.multicast is not None
    callbacks = GroupCallbacks(
        joined=partial(shell.on_group_joined, number),
        datagrams=partial(shell.on_group_datagrams, number),
        left=partial(shell.on_group_left, number),
    )
    return GroupLink(
        link,
        udp.multicast,
        callbacks,
        interface=udp.multicast_interface,
        hops=udp.multicast_hops,
    )


def _line(
    line: SerialSettings, place: int, number: int, shell: Shell, bytes_max: int
) -> SerialLink:
    from gateway.transports.serial.port import SerialCallbacks, SerialLink

    heard = partial(shell.on_datagrams, number)
    callbacks = SerialCallbacks(heard)
    if line.advertise:
        opened = partial(shell.on_line_opened, number)
        callbacks = SerialCallbacks(heard, opened, partial(shell.on_group_left, number))
    return SerialLink(line, f"serial{place}", callbacks, message_bytes_max=bytes_max)
