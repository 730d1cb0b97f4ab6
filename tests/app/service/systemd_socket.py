"""The socket on which systemd hears a service, as a service sees it."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self

TIMEOUT_S = 200.0


class SystemdSocket:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "notify"
        self.heard: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def environment(self, watchdog_s: float | None = None) -> dict[str, str]:
        watchdog = {} if watchdog_s is None else {"WATCHDOG_USEC": str(int(watchdog_s * 1e6))}
        return {"NOTIFY_SOCKET": str(self.path), **watchdog}

    def next(self, within_s: float = TIMEOUT_S) -> str | None:
        """What comes next, or None if nothing comes in time."""
        self._socket.settimeout(within_s)
        try:
            said = self._socket.recv(65_536).decode()
        except TimeoutError:
            return None
        self.heard.append(said)
        return said

    def wait_for(self, what: str) -> str:
        deadline = time.monotonic() + TIMEOUT_S
        while (left_s := deadline - time.monotonic()) > 0:
            said = self.next(left_s)
            if said is not None and what in said:
                return said
        raise AssertionError(f"no {what!r} in {self.heard}")
