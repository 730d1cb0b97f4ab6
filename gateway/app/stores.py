"""What writes to the disk: opened before the engine is there, at work beside it, closed after it.

Only the state folder decides whether the daemon can start. Later trouble with the disk never stops
it: readings go past the journal, or their sensors are told.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from pathlib import Path

from gateway.admin.metrics.sync_times import SyncTimes
from gateway.admin.part_numbers import Condition, JournalNumbers, StateNumbers
from gateway.admin.snapshot import TimedFiles, journal_numbers
from gateway.app.core_options import journal_options
from gateway.app.service.ending import FLUSH_UNTIL_S, JOURNAL_UNTIL_S, STATE_UNTIL_S, Shutdown
from gateway.app.shell import Shell
from gateway.config.settings import Settings
from gateway.core.state_records import ClientId, Exchanges
from gateway.core.values import KeptRecords, Reading
from gateway.host.causes import FAILING, is_there
from gateway.storage.journal.boot import read_boot_id
from gateway.storage.journal.committer import JournalCallbacks, JournalCommitter
from gateway.storage.journal.files import Files
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.numbers import JournalState
from gateway.storage.journal.options import UNREADABLE_S, JournalError, JournalOptions
from gateway.storage.journal.recovered import Recovered
from gateway.storage.state.committer import StateCommitter
from gateway.storage.state.folder import StateFolder, open_state
from gateway.transports.clock import machine_now, pauses, unix_ms_at_zero

log = logging.getLogger("tidegate.journal")

Readings = tuple[
    dict[ClientId, int], list[Reading], dict[ClientId, Exchanges], int, list[KeptRecords]
]


@dataclass(slots=True)
class Stores:
    """The state folder, locked for this process, and what a previous run left in it."""

    folder: StateFolder
    journal: Journal
    recovered: Recovered
    sync_times: SyncTimes

    @property
    def epoch(self) -> int:
        return self.folder.epoch

    def readings(self) -> Readings:
        """What the journal had, as the engine takes it."""
        found = self.recovered
        return (
            found.queued,
            found.received,
            found.exchanges,
            found.last_packet_id,
            found.kept,
        )

    def release(self) -> None:
        self.folder.release()


def open_stores(settings: Settings) -> Stores:
    """Raises StateError or JournalError with a sentence for the operator."""
    # By place, not by address: a listener may get another port, and its sensors follow. But what
    # an address is in raw bytes depends on its family.
    link_names = [
        f"udp{number}v6" if ":" in udp.listen.host else f"udp{number}"
        for number, udp in enumerate(settings.listeners)
    ]
    # An address on a line says nothing but the line, so this is a line's own name: a sensor must
    # not be taken for another one because their tables changed places.
    link_names += [f"serial {line.port}" for line in settings.serial]
    folder = open_state(settings.gateway.state_dir, link_names)
    try:
        times = SyncTimes()
        options = journal_options(settings)
        began = time.monotonic()
        journal, recovered = _open_journal(settings.gateway.journal_dir, TimedFiles(times), options)
        recovered.report.seconds = time.monotonic() - began
        folder = folder.raised_above(recovered.newest_epoch)
    except OSError:
        folder.release()
        raise
    _report(recovered)
    return Stores(folder=folder, journal=journal, recovered=recovered, sync_times=times)


def _open_journal(folder: Path, files: Files, options: JournalOptions) -> tuple[Journal, Recovered]:
    """Raises JournalError. One that is there and cannot be written is read all the same."""
    now, at_zero, boot_id = machine_now(), unix_ms_at_zero(), read_boot_id()
    journal = Journal(folder, files, options)
    try:
        recovered = journal.open(now, at_zero, boot_id)
    except JournalError as error:
        if error.errno not in FAILING or not is_there(folder):
            raise
        journal.close()
        log.error("%s: what waits there is read all the same", error.strerror)
        journal = Journal(folder, files, options)
        recovered = journal.open_to_read(now, at_zero, boot_id, error)
    journal.pauses = pauses
    return journal, recovered


class Committers:
    def __init__(
        self, *, stores: Stores, settings: Settings, shell: Shell, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._journal = stores.journal
        self._sync_times = stores.sync_times
        self._problem: str | None = None
        callbacks = JournalCallbacks(
            stored=shell.on_stored,
            indeterminate=shell.on_indeterminate,
            not_stored=shell.on_not_stored,
            durable=shell.on_durable,
            backlog=shell.on_backlog,
            read_again=shell.on_read_again,
            dropped_oldest=shell.on_dropped_oldest,
            state_changed=self._journal_changed,
            in_reach_again=shell.on_in_reach_again,
            out_of_reach=_out_of_reach,
            lost=_lost,
        )
        linger_s = settings.journal.linger_ms / 1000
        self.journal = JournalCommitter(
            journal=stores.journal, loop=loop, callbacks=callbacks, linger_s=linger_s
        )
        folder = stores.folder
        self.state = StateCommitter(
            store=folder.store,
            saved=folder.saved,
            loop=loop,
            on_durable=shell.on_durable,
            trouble=folder.trouble,
        )
        self._lost = folder.lost
        self._store = folder.store

    # From the daemon

    async def flush(self, ending: Shutdown) -> None:
        """What can be handed back to the broker is, while it still listens."""
        await ending.within(self.state.flush(), FLUSH_UNTIL_S)

    async def stop(self, ending: Shutdown) -> None:
        """What is pending is written, then all is closed; both as far as the disk answers."""
        await ending.within(self.journal.stop(), JOURNAL_UNTIL_S)
        await ending.within(self.state.stop(), STATE_UNTIL_S)

    def left_behind(self) -> str | None:
        """What the disk has not taken, for the last line of the log."""
        waited_s = max(self.journal.under_way_s, self.state.under_way_s)
        if not waited_s:
            return None
        return (
            f"the disk of gateway.state_dir has not answered for {waited_s:.0f} s. What was "
            f"acknowledged is safe; {self.journal.unstored} readings that the journal had not "
            f"acknowledged are not stored, and {self.state.numbers.pending} changes of sessions "
            "are not saved"
        )

    def set_wall_clock(self, at_zero: float) -> None:
        """Unix milliseconds at the zero of the monotonic clock."""
        self._journal.unix_ms_at_zero = at_zero

    def journal_numbers(self) -> JournalNumbers:
        numbers = self._journal.numbers
        return journal_numbers(numbers, self._sync_times, machine_now(), self._problem)

    def state_numbers(self) -> StateNumbers:
        numbers, problem = self.state.numbers, self.state.check()
        return StateNumbers(
            condition=Condition.OK if problem is None else Condition.DEGRADED,
            error=problem,
            pending_rows=numbers.pending,
            commits=numbers.commits,
            failures=numbers.failures,
            file_bytes=self._store.file_bytes,
            lost=None if self._lost is None else str(self._lost),
        )

    # From the journal

    def _journal_changed(self, state: JournalState, problem: str) -> None:
        """Once for each change; /healthz has it as long as it lasts."""
        self._problem = problem or None
        because = f" ({problem})" if problem else ""
        match state:
            case JournalState.OK:
                log.info("the journal has room and can be written again")
            case JournalState.FULL:
                log.warning(
                    "the journal is full%s: sensors are told to wait while the broker is away; "
                    "bring it back, make room on the disk, or raise journal.size_max",
                    because,
                )
            case JournalState.DEGRADED:
                log.warning(
                    "a write to the journal failed%s; what it held is safe in another segment. "
                    "`tidegate doctor --disk` measures the disk",
                    because,
                )
            case JournalState.FAILED:
                log.error(
                    "the journal cannot be written%s: readings are acknowledged by the broker "
                    "alone. It is tried again every second",
                    because,
                )


def _out_of_reach(count: int, problem: str) -> None:
    if not problem:
        log.info("all readings on disk can be read again")
        return
    log.error(
        "%d readings on disk cannot be read (%s): they are tried each second, those behind them "
        "wait for %.0f s at most. Put the file back, or make it readable for this user again",
        count,
        problem,
        UNREADABLE_S,
    )


def _lost(count: int, where: str) -> None:
    log.error(
        "%d readings on disk could not be read back and are lost (in %s): `tidegate doctor --disk` "
        "measures the disk",
        count,
        where,
    )


def _report(recovered: Recovered) -> None:
    """What the journal had, for the log."""
    report = recovered.report
    if report.records:
        log.info(
            "journal read in %.2f s: %d records, %d readings wait for the broker",
            report.seconds,
            report.records,
            report.waiting,
        )
    if report.torn_bytes:
        log.info(
            "the last write before the power went was incomplete (%d bytes): nothing that was "
            "acknowledged was in it",
            report.torn_bytes,
        )
    for sentence in report.damaged:
        log.error("%s", sentence)
