"""What systemd is told of this service: sd_notify(3), by a datagram to the socket that it names.

Started by anybody else nobody is told anything, and nothing is missing. A word that does not reach
systemd is forgotten: the gateway serves sensors first, and a watchdog that is not heard is the very
thing that systemd acts upon.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import MutableMapping
from typing import Self

# sun_path has 108 octets, and systemd cuts nothing of a status; a line on a terminal is enough.
ADDRESS_BYTES_MAX = 108
STATUS_LENGTH_MAX = 300
# systemd asks for a word within WATCHDOG_USEC, and recommends half of it; so two may get lost.
WATCHDOG_SHARE = 3


class ServiceManager:
    """`watchdog_s`: within which it must hear `alive`; None if it does not wait for that."""

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        self.watchdog_s = watchdog_s
        self._address = "\0" + address[1:] if address and address[0] == "@" else address
        self._socket: socket.socket | None = None
        self._status = ""
        self._alive_at = float("-inf")
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
        self._say("READY=1", self._described(status))

    def reloading(self) -> None:
        """Until `ready` is said again."""
        self._say("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._say("STOPPING=1", self._described("stopping"))

    def status(self, text: str) -> None:
        """For `systemctl status`; said once."""
        if text != self._status:
            self._say(self._described(text))

    def extend(self, seconds: float) -> None:
        """More time to start or to stop, from now on."""
        self._say(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def alive(self, now: float) -> None:
        """May be called as often as there is progress; said as often as is needed."""
        if self.watchdog_s is not None and now - self._alive_at >= self.watchdog_s / WATCHDOG_SHARE:
            self._alive_at = now
            self._say("WATCHDOG=1")

    def _described(self, text: str) -> str:
        self._status = text
        shown = text if len(text) <= STATUS_LENGTH_MAX else text[: STATUS_LENGTH_MAX - 3] + "..."
        return "STATUS=" + "".join(letter if letter.isprintable() else " " for letter in shown)

    def _say(self, *lines: str) -> None:
        if self._socket is not None and self._address is not None:
            with contextlib.suppress(OSError):
                self._socket.sendto("\n".join(lines).encode(errors="replace"), self._address)
