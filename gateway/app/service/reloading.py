"""SIGHUP: the configuration is read again, and what can change at once does.

A signal only requests it. The files are read in a thread with a time limit, because the disk or the
network that has them may not answer; as long as one such read hangs there is no second one, and
/healthz and the alarms name the file. At most one reload begins in `EVERY_S`: signals that come
sooner are one reload, when that time is over.

All of the new configuration is taken or nothing: a wrong one changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.admin.log.logs import Level
from gateway.app.core_options import load_parts
from gateway.app.credentials import Credentials, read_credentials
from gateway.app.service.reload import Change, changes, in_force, is_at_once
from gateway.config import ConfigError, Configuration
from gateway.config.credential import named_files
from gateway.config.problems import Origin
from gateway.config.regular_file import last_opened
from gateway.config.spelling import dotted
from gateway.host.side_thread import BusyError, NoThreadError, OverdueError, SideThread
from gateway.transports.errors import LinkError

if TYPE_CHECKING:
    from gateway.core.access.device_keys import DeviceKeys

log = logging.getLogger("tidegate")

EVERY_S = 1.0
FILES_EVERY_S = 10.0  # certificates are renewed once a day or less
# A disk that has spun down answers within that.
READ_S_MAX = 10.0
# Keys that are named one by one; a file that was turned upside down is not read from a log.
CHANGES_SHOWN_MAX = 20
KEYS_SHOWN_MAX = 3  # of those that need a restart, by name
BY_COMMAND = Origin("a command from the broker")


@dataclass(slots=True)
class CurrentConfiguration:
    """The configuration in force, and the thread that reads another."""

    configuration: Configuration
    credentials: Credentials
    reader: SideThread = field(default_factory=lambda: SideThread("reload"), compare=False)
    # With a certificate, a key or a password that is another one and cannot be used.
    file_problem: str | None = field(default=None, compare=False)
    # Keys with other values that the last reload could not take, and the command that does.
    waits_for_restart: tuple[str, ...] = field(default=(), compare=False)
    how_to_restart: str = field(default="", compare=False)

    def set_log_level(self, level: Level) -> CurrentConfiguration:
        """Until the configuration is read again. Returns what was in force."""
        before = CurrentConfiguration(self.configuration, self.credentials, self.reader)
        settings = self.configuration.settings
        self.configuration = replace(
            self.configuration,
            settings=replace(settings, log=replace(settings.log, level=level)),
            origins={**self.configuration.origins, "log.level": BY_COMMAND},
        )
        return before

    def device_keys(self) -> DeviceKeys:
        """Those that are valid now; asked again for each handshake, as they change."""
        keys = self.credentials.keys
        return _no_keys() if keys is None else keys()

    def watched_files(self) -> list[Path]:
        """Those that are named, and the usual file of keys where devices have some."""
        settings = self.configuration.settings
        named = named_files(settings).values()
        usual = [] if self.credentials.keys is None else [settings.keys_file]
        return list(dict.fromkeys([*named, *usual]))

    def waiting(self) -> str | None:
        """Which keys wait for a restart; None without any."""
        later = self.waits_for_restart
        if not later:
            return None
        named = ", ".join(later[:KEYS_SHOWN_MAX]) + (", ..." if len(later) > KEYS_SHOWN_MAX else "")
        return f"{len(later)} changed keys wait for a restart ({named})"

    def restart_wanted(self) -> str | None:
        """For the alarms: the same, and the command."""
        waiting = self.waiting()
        return waiting and f"{waiting}: {self.how_to_restart}"

    def doubt(self) -> str | None:
        """For health: which file of the configuration does not answer, or cannot be used as it is
        now, or None.
        """
        overdue_s = self.reader.overdue_s
        if overdue_s is None:
            return self.file_problem and f"{self.file_problem}; the one before stays in use"
        return (
            f"{_file()} has not answered for {overdue_s:.0f} s: the configuration cannot be "
            "reloaded until its disk or network does"
        )


@cache  # another one would count as changed keys
def _no_keys() -> DeviceKeys:
    from gateway.core.access.device_keys import DeviceKeys  # only when wanted

    return DeviceKeys()


@dataclass(frozen=True, slots=True)
class _Read:
    wanted: Configuration
    after: CurrentConfiguration
    changes: list[Change]
    how_to_restart: str


@dataclass(slots=True)
class Reloading:
    """`load` reads the configuration, `apply` gets what was in force, what is now, and whether that
    was asked for by a signal or is of the process itself. `begins` and `ends` are called around
    each reload, also around one that changes nothing.
    """

    in_force: CurrentConfiguration
    load: Callable[[], Configuration]
    apply: Callable[[CurrentConfiguration, CurrentConfiguration, str], None]
    now: Callable[[], float]
    begins: Callable[[], None]
    ends: Callable[[], None]
    _is_requested: bool = field(init=False, default=False)
    _task: asyncio.Task[None] | None = field(init=False, default=None)
    _next_at: float = field(init=False, default=float("-inf"))
    _look_at: float = field(init=False, default=float("-inf"))
    _seen: tuple[object, ...] | None = field(init=False, default=None)

    def request(self) -> None:
        """From a signal, however often."""
        self._is_requested = True
        self._start()

    def look_at_files(self) -> None:
        """Each second: whether a certificate, a key or a password is another one. Only those are
        read again then: a configuration that somebody is editing is not.
        """
        if self._task is None and self.now() >= self._look_at:
            self._look_at = self.now() + FILES_EVERY_S
            if not self.in_force.watched_files():
                return  # as most are, which so have no thread for it
            self._task = asyncio.get_running_loop().create_task(self._look(), name="credentials")

    async def _look(self) -> None:
        reader = self.in_force.reader
        try:
            after = await reader.run(self._read_files, READ_S_MAX)
        except (OverdueError, BusyError, NoThreadError):
            pass  # the next look, or /healthz, says more
        except LinkError as error:  # half of a new pair, most likely
            if str(error) != self.in_force.file_problem:
                log.warning("%s; the one before stays in use", error)
            self.in_force.file_problem = str(error)
        else:
            self.in_force.file_problem = None
            current = self.in_force
            if after is not None and after.configuration is current.configuration:
                before = CurrentConfiguration(
                    current.configuration, current.credentials, current.reader
                )
                current.credentials = after.credentials
                _log_keys(before.credentials, after.credentials)
                log.info("a password or a certificate is another one: in use from now on")
                self.apply(before, current, "process")
        finally:
            self._task = None
            if self._is_requested:
                self._start()

    def _read_files(self) -> CurrentConfiguration | None:
        """In the thread. None if nothing is another. Raises LinkError."""
        current = self.in_force
        seen = tuple(map(_stat, current.watched_files()))
        if seen == self._seen:
            return None
        after = read_credentials(current.configuration.settings)
        self._seen = seen  # what could not be read is read again
        if after == current.credentials:
            return None
        return CurrentConfiguration(current.configuration, after, current.reader)

    def _start(self) -> None:
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._reload_while_requested(), name="reload")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _reload_while_requested(self) -> None:
        try:
            while self._is_requested:
                await asyncio.sleep(max(0.0, self._next_at - self.now()))
                self._is_requested = False
                self._next_at = self.now() + EVERY_S
                self.begins()
                try:
                    await self._reload()
                finally:  # or systemd would wait for it, whatever went wrong
                    self.ends()
        finally:
            self._task = None

    async def _reload(self) -> None:
        reader = self.in_force.reader
        try:
            read = await reader.run(self._read, READ_S_MAX, self._answers_again)
        except ConfigError as error:
            for line in str(error).splitlines():
                log.error("reload: %s", line)
            log.error("reload: nothing is changed, the gateway goes on as it was")
        except (LinkError, NoThreadError) as error:
            _log_refusal(error.strerror if isinstance(error, NoThreadError) else error)
        except OverdueError:
            _log_refusal(f"{_file()} could not be read within {READ_S_MAX:.0f} s")
        except BusyError:
            _log_refusal(f"{_file()} has still not answered, after {reader.overdue_s or 0:.0f} s")
        except Exception:  # ours; the gateway goes on
            log.exception("reload: failed; nothing is changed, the gateway goes on as it was")
        else:
            self._take(read)

    def _read(self) -> _Read:
        """In the thread. Raises ConfigError, LinkError."""
        before = self.in_force
        wanted = self.load()
        configuration = in_force(before.configuration, wanted)
        load_parts(configuration.settings)
        after = CurrentConfiguration(
            configuration, read_credentials(configuration.settings), before.reader
        )
        from gateway.host.supervisor import how_to  # here, where files may be looked at

        return _Read(wanted, after, changes(before.configuration, wanted), how_to("restart"))

    def _take(self, read: _Read) -> None:
        current, after = self.in_force, read.after
        self._log_changes(current.configuration, read)
        before = CurrentConfiguration(current.configuration, current.credentials, current.reader)
        current.configuration, current.credentials = after.configuration, after.credentials
        current.file_problem = None
        is_same = after.credentials == before.credentials
        if is_same and after.configuration.settings == before.configuration.settings:
            return
        _log_keys(before.credentials, after.credentials)
        if not after.credentials.is_same_but_for_keys(before.credentials):
            log.info("reload: passwords or certificates are others now")
        self.apply(before, current, "signal")

    def _log_changes(self, before: Configuration, read: _Read) -> None:
        wanted, found = read.wanted, read.changes
        for warning in wanted.warnings:
            log.warning("%s", warning)
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
        self.in_force.waits_for_restart = tuple(dotted(change.path) for change in later)
        self.in_force.how_to_restart = read.how_to_restart
        if not found:
            log.info("reload: no key has another value")
        elif later:
            log.warning("reload: for %d keys: %s", len(later), read.how_to_restart)

    def _answers_again(self) -> None:
        log.info("reload: %s answers again; what it has now is read with the next reload", _file())


def _log_keys(before: Credentials, after: Credentials) -> None:
    if after.keys_digest == before.keys_digest:
        return
    log.info("reload: %d devices have keys", 0 if after.keys is None else len(after.keys))


def _stat(path: Path) -> object:
    """Another value when the file is another one or has other contents."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _file() -> str:
    path = last_opened()
    return "the configuration" if path is None else str(path)


def _log_refusal(why: object) -> None:
    log.error("reload: %s; nothing is changed, the gateway goes on as it was", why)
