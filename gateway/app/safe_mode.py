"""`tidegate run` while its configuration is wrong: it says so, and waits until the file is right.

A gateway on a wall is often reached by its page alone, so that page says what is wrong, at the
place where it would be. The file is looked at each second; as soon as it is right the gateway
starts. Nothing else runs meanwhile: no sensor is answered, so those that are there try again later.

Where waiting cannot help it is not done: if what is wrong is on the command line or in the
environment, if the file is not there, or if the page cannot be served.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.admin.http.fault_page import FaultPage
from gateway.app.service.hangup import outlive_reload
from gateway.app.service.notify import ServiceManager
from gateway.config import ConfigError, Configuration, HostPort
from gateway.host.side_thread import BusyError, NoThreadError, OverdueError, SideThread
from gateway.host.version import version

POLL_S = 1.0


def can_be_fixed(error: ConfigError, path: Path | None) -> bool:
    """Whether a change of the file would make it right."""
    if path is None or not path.exists():
        return False
    return all(problem.origin.source == str(path) for problem in error.problems)


class SafeMode:
    def __init__(
        self,
        *,
        load: Callable[[], Configuration],
        path: Path,
        error: ConfigError,
        report: Callable[[str], None],
        manager: ServiceManager,
    ) -> None:
        self._load = load
        self._path = path
        self._error = error
        self._report = report
        self._manager = manager
        self._seen = _stat(path)

    def wait(self, listen: HostPort) -> Configuration | None:
        """The configuration once it is right; None after a signal to stop. Raises AdminError."""
        return asyncio.run(self._wait(listen))

    async def _wait(self, listen: HostPort) -> Configuration | None:
        stop_requested = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop_requested.set)
        outlive_reload()  # the file is looked at each second anyway
        page = FaultPage(listen, version(), self._faults)
        await page.start()
        self._report(
            f"waiting for {self._path} to be fixed; http://{HostPort(*page.listening_on)} shows "
            "the same. --no-wait ends instead"
        )
        self._manager.ready(self._status())
        try:
            return await self._fixed(stop_requested)
        finally:
            await page.stop()

    async def _fixed(self, stop_requested: asyncio.Event) -> Configuration | None:
        reader = SideThread("configuration")
        while not stop_requested.is_set():
            try:
                async with asyncio.timeout(POLL_S):
                    await stop_requested.wait()
            except TimeoutError:
                self._manager.feed_watchdog(asyncio.get_running_loop().time())
                # A disk that does not answer: one read waits for it, and the next one is later.
                with contextlib.suppress(BusyError, OverdueError, NoThreadError):
                    configuration = await reader.run(self._load_if_changed, POLL_S, self._forget)
                    self._manager.status(self._status())
                    if configuration is not None:
                        self._report(f"{self._path} is right now")
                        return configuration
        return None

    def _forget(self) -> None:
        """The result of a read that took too long is not known: read again."""
        self._seen = None

    def _load_if_changed(self) -> Configuration | None:
        """In a thread: the configuration, if its file is another one and right."""
        now = _stat(self._path)
        if now == self._seen:
            return None
        self._seen = now
        try:
            return self._load()
        except ConfigError as error:
            if str(error) != str(self._error):
                self._report(str(error))
            self._error = error
            return None

    def _status(self) -> str:
        first = str(self._error).partition("\n")[0]
        return f"no sensor is served, waiting for a right configuration: {first}"

    def _faults(self) -> dict[str, Any]:
        faults = [
            {
                "source": problem.origin.source,
                "line": problem.origin.line,
                "column": problem.origin.column,
                "key": problem.key,
                "message": problem.message,
            }
            for problem in self._error.problems
        ]
        return {"faults": faults, "left_out": self._error.left_out}


def _stat(path: Path) -> object:
    """Another value when the file is another one, has other contents, or other rights."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode, found.st_uid
