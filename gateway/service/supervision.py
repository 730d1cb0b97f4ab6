"""The running gateway and whoever supervises it: words to systemd, its watchdog, its reload.

The watchdog is fed as long as nothing stands still by a fault of our own (watch.py). READY is said
when sensors can be served, which does not need the broker. SIGHUP reloads; from a terminal that is
gone it ends the gateway, as that is what it means there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.config import ConfigError, Configuration
from gateway.credentials import Credentials, read_credentials
from gateway.links.errors import LinkError
from gateway.service.notify import ServiceManager
from gateway.service.own_process import has_terminal
from gateway.service.reload import changes, in_force, is_at_once

log = logging.getLogger("tidegate")

STATUS_EVERY_S = 5.0
# Keys that are named one by one; a file that was turned upside down is not read from a log.
CHANGES_SHOWN_MAX = 20


@dataclass(slots=True)
class InForce:
    """The configuration that the running gateway follows."""

    configuration: Configuration
    credentials: Credentials


@dataclass(slots=True)
class Supervision:
    """`fault`: what stands still inside, or None. `status`: how it is, in one line. `load` reads
    the configuration anew; `apply` gets what was in force and what is now.
    """

    manager: ServiceManager
    in_force: InForce
    fault: Callable[[], str | None]
    status: Callable[[], str]
    load: Callable[[], Configuration]
    apply: Callable[[InForce, InForce], None]
    now: Callable[[], float]
    _status_at: float = field(init=False, default=float("-inf"))
    _was_stuck: str | None = field(init=False, default=None)
    _waits_for_restart: int = field(init=False, default=0)
    _had_terminal: bool = field(init=False, default_factory=has_terminal)

    # From the daemon

    def started(self) -> None:
        self.manager.ready(self._status())

    def stopping(self) -> None:
        self.manager.stopping()

    def beat(self) -> None:
        """Each second of the loop."""
        if not self.manager.is_there:
            return
        at = self.now()
        stuck = self.fault()
        if stuck is None:
            self.manager.alive(at)
        elif self._was_stuck is None:
            log.critical("stuck: %s; the watchdog is not fed any more", stuck)
        self._was_stuck = stuck
        if at - self._status_at >= STATUS_EVERY_S:
            self._status_at = at
            self.manager.status(self._status())

    # From a signal

    def hung_up(self, stop: Callable[[], None]) -> None:
        if self._had_terminal and not has_terminal():
            stop()
            return
        self.manager.reloading()
        try:
            self.reload()
        finally:  # or systemd would wait for it, whatever went wrong
            self.manager.ready(self._status())

    def reload(self) -> None:
        """All of the new configuration or nothing: a wrong one changes nothing."""
        before = self.in_force.configuration
        try:
            wanted = self.load()
            configuration = in_force(before, wanted)
            credentials = read_credentials(configuration.settings)
        except ConfigError as error:
            for line in str(error).splitlines():
                log.error("reload: %s", line)
            log.error("reload: nothing is changed, the gateway goes on as it was")
            return
        except LinkError as error:
            log.error("reload: %s; nothing is changed, the gateway goes on as it was", error)
            return
        self._say_changes(before, wanted)
        old = InForce(before, self.in_force.credentials)
        self.in_force.configuration, self.in_force.credentials = configuration, credentials
        if configuration.settings == before.settings and credentials == old.credentials:
            return
        if credentials != old.credentials:
            log.info("reload: passwords or certificates are others now")
        self.apply(old, self.in_force)

    # Helpers

    def _say_changes(self, before: Configuration, wanted: Configuration) -> None:
        for warning in wanted.warnings:
            log.warning("%s", warning)
        found = changes(before, wanted)
        later = [
            each for each in found if not is_at_once(each.path, before.settings, wanted.settings)
        ]
        for change in found[:CHANGES_SHOWN_MAX]:
            if change in later:
                log.warning("reload: needs a restart: %s", change)
            else:
                log.info("reload: in force now: %s", change)
        if len(found) > CHANGES_SHOWN_MAX:
            log.warning("reload: and %d more keys", len(found) - CHANGES_SHOWN_MAX)
        self._waits_for_restart = len(later)
        if not found:
            log.info("reload: no key has another value")
        elif later:
            log.warning("reload: for %d keys: sudo systemctl restart tidegate", len(later))

    def _status(self) -> str:
        later = self._waits_for_restart
        return self.status() + (f", {later} changed keys wait for a restart" if later else "")
