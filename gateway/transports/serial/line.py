"""What a serial line is to its link: bytes both ways, wherever the port may be.

Two kinds: a device of this machine (device.py) and a port server on the network
(server.py).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

OnBytes = Callable[[bytes], None]


class LineFailure(enum.Enum):
    """Why a port cannot be opened."""

    ABSENT = "absent"  # was unplugged, or never there
    PERMISSION = "permission"
    BUSY = "busy"
    UNSUITABLE = "unsuitable"  # no serial port, or not with these settings
    UNREACHABLE = "unreachable"  # the port server
    REFUSED = "refused"  # by the port server


class LineError(OSError):
    """The text says what to do, if anything can be done but wait."""

    def __init__(self, failure: LineFailure, text: str) -> None:
        super().__init__(text)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class PortOptions:
    """`port`: a path, or a URL with socket:// or rfc2217://."""

    port: str
    baud: int = 115_200
    parity: Literal["none", "even", "odd"] = "none"
    stop_bits: int = 1
    rtscts: bool = False


@dataclass(frozen=True, slots=True)
class LineCallbacks:
    received: OnBytes
    writable: Callable[[], None]  # after a write that did not take everything
    lost: Callable[[str], None]  # once: why


class Line(Protocol):
    """An open port."""

    warning: str | None  # what is odd about it, though it works

    def begin(self) -> None:
        """Nothing is received before it."""

    def write(self, chunk: bytes) -> int:
        """How many it took. Faults of the line are reported by `lost`."""

    def close(self) -> None:
        """Returns at once; `closed` knows when it is done."""

    async def closed(self) -> None: ...


def short_name(port: str) -> str:
    """`usb-...-if00-port0`, `ttyUSB0` or the URL, for logs and lists."""
    return port.removeprefix("/dev/serial/by-id/").removeprefix("/dev/")
