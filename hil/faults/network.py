"""The way between board and gateway as scenarios see it, whether it is UDP or a serial line."""

from __future__ import annotations

import os
import tty
from collections import Counter
from collections.abc import Set
from pathlib import Path
from typing import Protocol

import serial  # type: ignore[import-untyped]

from hil.faults.lossy_proxy import Impairment, LossyProxy
from hil.faults.serial_proxy import PULLED_OUT, LineImpairment, SerialProxy
from hil.oracle.conversation import DUP, opened
from hil.oracle.readings import read

# Of a gateway's port to boards with rings of 64 bytes, as docs/flashing.md says.
LINE_CONFIG = '[[serial]]\nport = "{port}"\nbaud = {baud}\nburst_bytes_max = 32\nframe_gap_ms = 5\n'
NO_UDP = '[[udp]]\nlisten = ""\n'


class Network(Protocol):
    is_down: bool

    @property
    def fault_counts(self) -> Counter[str]:
        """What happened to datagrams or bytes."""

    @property
    def excused(self) -> Set[int]:
        """Readings of which the network made copies that look like new ones to any gateway."""

    def set_impairment(self, udp: Impairment, line: LineImpairment) -> None: ...
    def marks(self, udp: Impairment, line: LineImpairment) -> tuple[str, ...]:
        """Faults that such an impairment causes here; none if there are none."""

    def burst(self, octets: int) -> None:
        """Only lines have any."""

    async def leave(self) -> None: ...
    async def come_back(self) -> None: ...
    def close(self) -> None:
        """Does nothing the second time."""


class UdpNetwork:
    def __init__(self, proxy: LossyProxy) -> None:
        self._proxy = proxy

    @property
    def is_down(self) -> bool:
        return self._proxy.is_down

    @is_down.setter
    def is_down(self, is_down: bool) -> None:
        self._proxy.is_down = is_down

    @property
    def fault_counts(self) -> Counter[str]:
        return self._proxy.fault_counts

    @property
    def excused(self) -> Set[int]:
        found = set()
        for frame in self._proxy.copied_up:
            _, body = opened(frame)
            one = read(body[5:]) if body and not body[0] & DUP else None
            if one is not None:
                found.add(one.counter)
        return found

    def set_impairment(self, udp: Impairment, line: LineImpairment) -> None:
        self._proxy.impairment = udp

    def marks(self, udp: Impairment, line: LineImpairment) -> tuple[str, ...]:
        return udp.marks

    def burst(self, octets: int) -> None:
        raise AssertionError("scenarios with bursts are not for UDP")

    async def leave(self) -> None:
        self._proxy.is_down = True

    async def come_back(self) -> None:
        """As from behind a router that forgot: at another port."""
        await self._proxy.move_all()
        self._proxy.is_down = False

    def close(self) -> None:
        self._proxy.close()


class LineNetwork:
    excused: Set[int] = frozenset()

    def __init__(self, proxy: SerialProxy) -> None:
        self._proxy = proxy

    @property
    def is_down(self) -> bool:
        return self._proxy.is_stuck

    @is_down.setter
    def is_down(self, is_down: bool) -> None:
        self._proxy.is_stuck = is_down

    @property
    def fault_counts(self) -> Counter[str]:
        return self._proxy.fault_counts

    def set_impairment(self, udp: Impairment, line: LineImpairment) -> None:
        self._proxy.impairment = line

    def marks(self, udp: Impairment, line: LineImpairment) -> tuple[str, ...]:
        return line.marks

    def burst(self, octets: int) -> None:
        self._proxy.burst(octets)

    async def leave(self) -> None:
        self._proxy.unplug()
        self._proxy.fault_counts[PULLED_OUT] += 1

    async def come_back(self) -> None:
        self._proxy.plug_in()

    def close(self) -> None:
        self._proxy.close()


class Terminal:
    """The two ends of a line to a board that has none of its own."""

    def __init__(self) -> None:
        self.near, self._far = os.openpty()
        tty.setraw(self._far)
        self.device = os.ttyname(self._far)

    def close(self) -> None:
        """The near end is whose it was given to."""
        os.close(self._far)


def opened_port(device: str, baud: int) -> int:
    """A descriptor of a board's own port, set to its rate. Raises OSError."""
    with serial.Serial(device, baud, timeout=0) as port:
        return os.dup(port.fileno())


def line_config(port: Path, baud: int) -> str:
    return LINE_CONFIG.format(port=port, baud=baud)
