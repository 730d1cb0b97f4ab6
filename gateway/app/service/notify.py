"""Messages to systemd: sd_notify(3), by a datagram to the socket that it names.

Without systemd nothing is sent, and nothing is missing. A message that does not reach systemd is
dropped: the gateway serves sensors first, and a watchdog that is not fed is exactly what systemd
acts upon.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import MutableMapping
from typing import Self

# sun_path has 108 bytes, and systemd cuts nothing of a status; a line on a terminal is enough.
ADDRESS_BYTES_MAX = 108
STATUS_LENGTH_MAX = 300
# systemd waits for WATCHDOG_USEC, and recommends half of it; at a third two may get lost.
WATCHDOG_SHARE = 3


class ServiceManager:
    """`watchdog_s`: the watchdog must be fed within it; None if there is none."""

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        self.watchdog_s = watchdog_s
        self._address = "\0" + address[1:] if address and address[0] == "@" else address
        self._socket: socket.socket | None = None
        self._status = ""
        self._fed_at = float("-inf")
        if address:
            with contextlib.suppress(OSError):
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)

    @classmethod
    def of(cls, environment: MutableMapping[str, str], pid: int) -> Self:
        """Takes the variables away: they are for this process, not for those that it starts."""
        address = environment.pop("NOTIFY_SOCKET", "")
        usec, meant = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        is_address = address[:1] in ("/", "@") and len(address.encode()) < ADDRESS_BYTES_MAX
        is_ours = not meant or meant == str(pid)
        watchdog_s = int(usec) / 1e6 if usec.isascii() and usec.isdigit() and is_ours else 0.0
        return cls(address if is_address else None, watchdog_s or None)

    @property
    def is_there(self) -> bool:
        return self._socket is not None

    def ready(self, status: str) -> None:
        self._notify("READY=1", self._described(status))

    def reloading(self) -> None:
        """Until `ready` is sent again."""
        self._notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._notify("STOPPING=1", self._described("stopping"))

    def status(self, text: str) -> None:
        """For `systemctl status`; sent when it changes."""
        if text != self._status:
            self._notify(self._described(text))

    def extend(self, seconds: float) -> None:
        """More time to start or to stop, from now on."""
        self._notify(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def feed_watchdog(self, now: float) -> None:
        """May be called as often as there is progress; sent as often as is needed."""
        if self.watchdog_s is not None and now - self._fed_at >= self.watchdog_s / WATCHDOG_SHARE:
            self._fed_at = now
            self._notify("WATCHDOG=1")

    def _described(self, text: str) -> str:
        self._status = text
        shown = text if len(text) <= STATUS_LENGTH_MAX else text[: STATUS_LENGTH_MAX - 3] + "..."
        return "STATUS=" + "".join(letter if letter.isprintable() else " " for letter in shown)

    def _notify(self, *lines: str) -> None:
        if self._socket is not None and self._address is not None:
            with contextlib.suppress(OSError):
                self._socket.sendto("\n".join(lines).encode(errors="replace"), self._address)
