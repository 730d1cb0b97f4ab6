"""The gateway's disk, which outlives the gateway: it loses power, fails, fills up, and is slow."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from random import Random
from weakref import finalize

import pytest

from gateway.core.state_records import AsideRecord, Change, StateRecords
from gateway.storage.journal import repair
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.options import LOOK_S, JournalOptions, WhenFull
from gateway.storage.journal.recovered import Recovered
from gateway.storage.state.errors import StateError
from gateway.storage.state.store import StateStore
from tests.simulation.outside_force import MeddledFiles
from tests.simulation.simulated_disk import BLOCK_BYTES
from tests.simulation.simulated_files import Faults, PowerCutError, SimulatedFiles
from tests.simulation.virtual_loop import Job

FOLDER = Path("/state/journal")
# Far below what production allows, so that few readings fill segments and the journal.
SEGMENT_BYTES = 4096
# Where the budget changes from start to start, and what is cut may be smaller.
LARGE_SEGMENT_BYTES = 16_384
LEAST_SEGMENT_BYTES = 1024
CALLS_OF_JOB = (1, 1, 2, 2, 3, 5, 9, 14)  # most groups are a write and a sync
CALLS_OF_OPENING = 60
MINIMUM_S = 0.0005
JOURNAL, STATE = "journal", "state"  # parts that hang each by itself
# What is done to files while the gateway runs.
SEGMENT_GONE, SEGMENT_COPIED = "a segment is removed", "a segment is replaced by a copy"
FOLDER_EMPTIED, FOLDER_MOVED = "the folder is emptied", "the folder is moved away"


class SmallOptions(JournalOptions):
    """Segments of a few readings."""

    @property
    def segment_bytes(self) -> int:
        return SEGMENT_BYTES


class ScaledOptions(JournalOptions):
    """As small, and by the budget as in production."""

    @property
    def segment_bytes(self) -> int:
        size = LARGE_SEGMENT_BYTES
        while size > SEGMENT_BYTES and size * 8 > self.size_max_bytes:
            size //= 2
        return size


class SimulatedStore(StateStore):
    """On a database that fails with the disk."""

    fails: Callable[[], bool]

    def commit(self, changes: Sequence[Change]) -> None:
        if self.fails():
            raise StateError(errno.EIO, "the disk fails")
        super().commit(changes)


class Disk:
    def __init__(
        self,
        dice: Random,
        flush_s_max: float,
        budget_bytes: int,
        budgets: tuple[int, ...] = (),
        meddler: Random | None = None,
    ) -> None:
        """`budgets`: of each start, if they change. `meddler`: does things to the files."""
        self.files = SimulatedFiles(dice) if meddler is None else MeddledFiles(dice, meddler)
        self.meddler = meddler
        # Looks at the files cost time, and find nothing where nobody does anything to them.
        self.look_s = inf if meddler is None else LOOK_S
        self._budgets = budgets
        self._starts = 0
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        finalize(self, self._database.close)  # Python 3.13 warns of those that nothing closed
        self.flush_s_max = flush_s_max
        self.slow_until = 0.0
        self._hung_until = {JOURNAL: 0.0, STATE: 0.0}
        self._dice = dice
        self.budget_bytes = budget_bytes
        self._boots = 0
        self.boot()

    # What happens to it

    def boot(self) -> None:
        """The machine starts: its monotonic clock means something else from now on."""
        self._boots += 1
        self._boot_id = b"boot %011d" % self._boots

    def fail(self) -> None:
        chance = self._dice.choice((0.05, 0.2, 0.2, 1.0))
        # Many disks take what is written and fail when they are to keep it.
        write_fails = self._dice.choice((chance, 0.0))
        self.files.faults = Faults(
            short_write=0.2, write_fails=write_fails, sync_fails=chance, sync_folder_fails=chance
        )

    def fill_up(self) -> None:
        self.files.capacity_bytes = self.files.used_bytes
        if self.meddler is not None and isinstance(self.files, MeddledFiles):
            self.files.capacity_bytes += self.meddler.choice((0, 1, 3)) * BLOCK_BYTES
            refusals = (0, 0, errno.ENOSPC, errno.EOPNOTSUPP)
            self.files.refuses_zeros = self.meddler.choice(refusals)

    def meddle(self) -> str:
        """Between two runs somebody does something to files that hold no reading; says what."""
        if self.meddler is None or not isinstance(self.files, MeddledFiles):
            return ""
        done = [self.files.meddle(FOLDER) for _ in range(self.meddler.randint(0, 3))]
        return "; ".join(done)

    def take_files(self, how: str) -> str:
        """While the gateway runs somebody does something to files with readings; says what."""
        files = self.files
        assert isinstance(files, MeddledFiles)
        acts = {
            SEGMENT_GONE: files.take_segment,
            SEGMENT_COPIED: files.replace_segment,
            FOLDER_EMPTIED: files.empty,
            FOLDER_MOVED: files.move_away,
        }
        return acts[how](FOLDER)

    def put_back(self) -> str:
        assert isinstance(self.files, MeddledFiles)
        return self.files.put_back(FOLDER)

    def heal(self) -> None:
        self.files.faults = Faults(short_read=0.05, short_write=0.05)
        self.files.capacity_bytes = 1 << 40
        if isinstance(self.files, MeddledFiles):
            self.files.refuses_zeros = 0

    def hang(self, part: str, until: float) -> None:
        """No call returns till then, of this part or of both; what was begun before included."""
        for each in self._hung_until:
            if part in ("", each):
                self._hung_until[each] = max(self._hung_until[each], until)

    def release(self) -> None:
        """All calls return."""
        self._hung_until = dict.fromkeys(self._hung_until, 0.0)

    def hung_until(self, part: str) -> float:
        return self._hung_until[part]

    def is_hung(self, now: float) -> bool:
        return any(now < until for until in self._hung_until.values())

    def cut_power(self, job: Job | None, saving: Job | None = None) -> None:
        """What of the job under way and of the page cache has reached the disk is all there is."""
        self._stop_in(job)
        self._maybe_commit(saving)
        self.files.crash()
        self.boot()

    def kill(self, job: Job | None, saving: Job | None = None) -> None:
        """Only the program ends; what it wrote is there, synced or not."""
        self._stop_in(job)
        self._maybe_commit(saving)
        self.files.kill()

    def _stop_in(self, job: Job | None) -> None:
        files, dice = self.files, self._dice
        if job is None or dice.random() < 0.4:
            return
        files.stop_in(dice.choice(CALLS_OF_JOB), before=dice.random() < 0.5)
        with suppress(PowerCutError, OSError):
            job.work()

    def _maybe_commit(self, saving: Job | None) -> None:
        """A commit is on the disk whole or not at all."""
        if saving is not None and self._dice.random() < 0.5:
            with suppress(StateError):
                saving.work()

    # The state on it

    def open_state(self) -> tuple[StateStore, StateRecords, int]:
        """The database as the last life left it, and the epoch of a new one."""
        opened = SimulatedStore(self._database, ["udp"])
        opened.fails = self._state_fails
        return opened, opened.load(), opened.raise_epoch(0)

    def _state_fails(self) -> bool:
        is_full = self.files.capacity_bytes <= self.files.used_bytes
        return is_full or self._dice.random() < self.files.faults.sync_fails

    # The journal on it

    def open_journal(
        self, now: float, unix_ms_at_zero: float, *, cut: bool
    ) -> tuple[Journal, Recovered]:
        """`cut`: the power goes meanwhile, perhaps."""
        files = self.files
        if cut:
            calls = self._dice.randint(1, CALLS_OF_OPENING)
            files.stop_in(calls, before=self._dice.random() < 0.5)
        kind = ScaledOptions if self._budgets else SmallOptions
        if self._budgets:
            self.budget_bytes = self._budgets[self._starts % len(self._budgets)]
        self._starts += 1
        options = kind(self.budget_bytes, WhenFull.REJECT, salt=lambda: self._dice.getrandbits(32))
        journal = Journal(FOLDER, files, options)
        least = LEAST_SEGMENT_BYTES if self._budgets else SEGMENT_BYTES
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(repair, "SEGMENT_BYTES_MIN", least)
            recovered = journal.open(now, unix_ms_at_zero, self._boot_id)
        files.stop_in(None)
        return journal, recovered

    def job_s(self, now: float) -> float:
        """How long one group takes; a card that tidies up is a hundred times slower."""
        longest = max(self.flush_s_max, 3.0) if now < self.slow_until else self.flush_s_max
        return MINIMUM_S + self._dice.random() ** 2 * longest

    def aside(self) -> list[AsideRecord]:
        """What a power cut now would leave of what is set aside."""
        return StateStore(self._database, ["udp"]).load().aside

    def has_durably(self, octets: bytes) -> bool:
        """Whether a power cut now would leave these bytes."""
        return any(octets in content.durable for content in self.files._durable_entries.values())
