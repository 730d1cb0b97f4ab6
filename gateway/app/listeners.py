"""All links to sensors, built from the settings: UDP first and then the serial lines, by number.

A link's number is its place in this list, by which the core knows it; its name (`udp0`, `serial0`)
is its place in the configuration, by which operators do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gateway.app.core_options import datagram_bytes_max
from gateway.app.shell import Group, Shell
from gateway.config.settings import SerialSettings, Settings, UdpSettings
from gateway.core.addresses import split, unprotected
from gateway.core.values import Peer
from gateway.host.side_thread import BusyError, NoThreadError, OverdueError, SideThread
from gateway.transports.udp.link import UdpLink, address_text
from gateway.transports.udp.multicast import GroupCallbacks, GroupLink

if TYPE_CHECKING:
    from gateway.transports.serial.port import SerialLink

log = logging.getLogger("tidegate")

NAME_S_MAX = 2.0  # for a look at where a path leads

Check = Callable[[], str | None]


class SensorLinks:
    """`multicast` and `groups` are by link; a serial line is a group of those who are on it."""

    def __init__(self) -> None:
        self.udp: list[UdpLink] = []
        self.serial: list[SerialLink] = []
        self.multicast: dict[int, GroupLink] = {}
        self.groups: dict[int, Group] = {}
        self._names = SideThread("names")

    def build(self, settings: Settings, shell: Shell) -> None:
        bytes_max = datagram_bytes_max(settings)
        for number, udp in enumerate(settings.listeners):
            link = _udp_link(udp, number, shell, bytes_max, settings.limits.clients_max)
            self.udp.append(link)
            if udp.multicast is not None:
                self.multicast[number] = _group(self.udp[number], udp, number, shell)
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
        for link in self.udp:
            link.open(loop)
            log.info("listening for sensors on udp %s port %d", *link.listening_on)
        for group in self.multicast.values():
            group.open(loop)
        for line in self.serial:
            line.open(loop)

    def look(self) -> None:
        """Each second: addresses come and go under a socket that is bound to them."""
        for number, link in enumerate(self.udp):
            before, problem = link.lost_address, link.check_address()
            if problem is not None and before is None:
                log.warning("udp%d: %s", number, problem)
            elif problem is None and before is not None:
                log.info("udp%d: the address %s is back", number, link.listening_on[0])

    def close(self) -> None:
        for group in self.multicast.values():
            group.close()
        for link in self.all:
            link.close()

    # From the shell

    def has_unread(self) -> bool:
        """Whether sensors have sent what was not read yet."""
        return any(link.mark() is not None for link in self.udp)

    # From those who show

    @property
    def all(self) -> list[UdpLink | SerialLink]:
        return [*self.udp, *self.serial]

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
        datagram_bytes_max=bytes_max,
        shares_port=udp.multicast is not None,
        peers_max=peers_max,
    )


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
