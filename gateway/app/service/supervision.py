"""The running gateway and its supervisor: messages to systemd, its watchdog, its reload.

The watchdog is fed as long as nothing stands still by a fault of our own (watch.py). READY is sent
when sensors can be served, which does not need the broker. SIGHUP reloads (reloading.py); from a
terminal that is gone it ends the gateway, as that is what it means there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.app.service.hangup import Terminal
from gateway.app.service.notify import ServiceManager
from gateway.app.service.reloading import CurrentConfiguration, Reloading
from gateway.config import Configuration

log = logging.getLogger("tidegate")

STATUS_EVERY_S = 5.0


@dataclass(slots=True)
class Supervision:
    """`fault`: what stands still inside, or None. `status`: how it is, in one line. `load` and
    `apply`: see `Reloading`.
    """

    manager: ServiceManager
    in_force: CurrentConfiguration
    fault: Callable[[], str | None]
    status: Callable[[], str]
    load: Callable[[], Configuration]
    apply: Callable[[CurrentConfiguration, CurrentConfiguration, str], None]
    now: Callable[[], float]
    _status_at: float = field(init=False, default=float("-inf"))
    _was_stuck: str | None = field(init=False, default=None)
    _is_stopping: bool = field(init=False, default=False)
    _terminal: Terminal = field(init=False, default_factory=Terminal)
    _reloading: Reloading = field(init=False)

    def __post_init__(self) -> None:
        self._reloading = Reloading(
            in_force=self.in_force,
            load=self.load,
            apply=self.apply,
            now=self.now,
            begins=self.manager.reloading,
            ends=self._ready,
        )

    # From the daemon

    def started(self) -> None:
        self._ready()

    def stopping(self) -> None:
        self._is_stopping = True
        self._reloading.stop()
        self._terminal.close()
        self.manager.stopping()

    def beat(self) -> None:
        """Each second of the loop."""
        if not self.manager.is_there:
            return
        at = self.now()
        stuck = self.fault()
        if stuck is None:
            self.manager.feed_watchdog(at)
        elif self._was_stuck is None:
            log.critical("stuck: %s; the watchdog is not fed any more", stuck)
        self._was_stuck = stuck
        if at - self._status_at >= STATUS_EVERY_S:
            self._status_at = at
            self.manager.status(self._status())

    def look_at_files(self) -> None:
        """Each second of the loop as well."""
        if not self._is_stopping:
            self._reloading.look_at_files()

    # From a signal

    def on_hangup(self, stop: Callable[[], None]) -> None:
        """No file is read here: signals may come by the thousand."""
        if self._terminal.is_gone:
            stop()
        else:
            self._reloading.request()

    # Helpers

    def _ready(self) -> None:
        if not self._is_stopping:
            self.manager.ready(self._status())

    def _status(self) -> str:
        """First what a reload could not do, as systemd's line has an end."""
        waiting = self.in_force.waiting()
        return self.status() if waiting is None else f"{waiting}; {self.status()}"
