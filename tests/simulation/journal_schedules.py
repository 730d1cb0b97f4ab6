"""One seed, one schedule: some lives of the production journal on a file system that loses power.

`python -m tests.simulation.journal_schedules SEED [--count N] [--trace]` repeats it. A life ends
at any call to the file system, or between two, or well; what the journal's owner does (stores,
finishes, receives, releases) may also come while the worker is at any call. The last life always
runs on a healthy disk: it must show all that was promised, and go on.

Segments are as small as a few records here, so that each schedule rolls and recycles many.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from gateway.storage.journal import options as options
from gateway.storage.journal import repair, segment_files
from gateway.storage.journal.options import JournalOptions
from gateway.storage.journal.segment import HEADER_BYTES
from tests.simulation.journal_judge import Clock
from tests.simulation.journal_life import Life
from tests.simulation.journal_memory import STARTS, JournalBrokenPromiseError, Memory
from tests.simulation.journal_plan import FOLDER, UNLIMITED, plan_of
from tests.simulation.outside_force import MeddledFiles
from tests.simulation.simulated_files import Faults, PowerCutError, SimulatedFiles

LEAST_SEGMENT_BYTES = 1024  # where any size may be found
SEGMENTS_OF_BUDGET = 8


@contextmanager
def small_segments(segment_bytes: int) -> Iterator[None]:
    """The smallest size there is of a segment is another."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for module in (options, repair, segment_files):
            monkeypatch.setattr(module, "SEGMENT_BYTES_MIN", segment_bytes)
        monkeypatch.setattr(segment_files, "ZERO_BYTES", bytes(segment_bytes))
        yield


class Schedule:
    def __init__(
        self, seed: int, trace: Callable[[str], None] | None = None, *, is_meddled: bool = False
    ) -> None:
        """`is_meddled`: between its lives the budget changes, and so do the files that hold no
        reading.
        """
        self.seed = seed
        self.dice = Random(seed)
        self.plan = plan_of(self.dice)
        self.meddler = Random(f"meddler {seed}") if is_meddled else None
        self.files = self._files()
        self.files.trace = trace
        self.memory = Memory()
        self.clock = Clock(1000.0, 1_767_225_600_000.0, b"boot 0".ljust(16))
        self.boots = 0
        self.serial = 0
        salts = Random(seed + 2)
        self.options = JournalOptions(
            self.plan.segment_bytes * self.plan.segments,
            self.plan.when_full,
            self.plan.recent_s,
            self.plan.pending_bytes_max,
            salt=lambda: salts.getrandbits(32),
        )

    def _files(self) -> SimulatedFiles:
        dice, capacity_bytes = Random(self.seed + 1), self.plan.capacity_bytes
        if self.meddler is None:
            return SimulatedFiles(dice, capacity_bytes)
        return MeddledFiles(dice, self.meddler, capacity_bytes)

    def run(self) -> Schedule:
        """Raises JournalBrokenPromiseError, with the seed and how to repeat it."""
        least = self.plan.segment_bytes if self.meddler is None else LEAST_SEGMENT_BYTES
        try:
            with small_segments(least):
                for _ in range(self.plan.lives):
                    self._live()
                self._last_lives()
        except JournalBrokenPromiseError as error:
            raise self._with_seed(str(error)) from error
        except Exception as error:
            raise self._with_seed(f"promise {STARTS}: {traceback.format_exc()}") from error
        return self

    def _with_seed(self, what: str) -> JournalBrokenPromiseError:
        meddled = "" if self.meddler is None else " --meddled"
        repeat = f"python -m tests.simulation.journal_schedules {self.seed}{meddled} --trace"
        message = f"seed {self.seed}, life {self.memory.life}: {what}\n{repeat}"
        return JournalBrokenPromiseError(message)

    def tell(self, what: str) -> None:
        if self.files.trace is not None:
            self.files.trace(what)

    # Lives

    def _live(self) -> None:
        dice, files, plan = self.dice, self.files, self.plan
        files.faults, files.capacity_bytes = plan.faults, plan.capacity_bytes
        if dice.random() < 0.8:
            call = dice.choice(["", "", "write", "sync_data", "rename", "sync_folder"])
            calls = 10 ** dice.uniform(0, 1.5 if call else 2.7)
            files.stop_in(int(calls), call, before=dice.random() < 0.5)
        life = Life(self)
        try:
            if life.open():
                life.play()
                if dice.random() < 0.5:
                    self._heal_disk()
                    life.heal()
                life.close()
        except PowerCutError:
            self.tell("the power is gone, or the program was killed")
        self._between()

    def _meddle(self) -> None:
        """Somebody changes the budget, and does something to the files."""
        if self.meddler is None or not isinstance(self.files, MeddledFiles):
            return
        factor = self.meddler.choice((1, 1, 2, 4, 8))
        size_max_bytes = SEGMENTS_OF_BUDGET * self.plan.segment_bytes * factor
        self.options = replace(self.options, size_max_bytes=size_max_bytes)
        for _ in range(self.meddler.randint(0, 3)):
            self.tell(f"meanwhile: {self.files.meddle(FOLDER)}")

    def _between(self) -> None:
        """The machine stops, or the program alone; and time passes."""
        self._stop()
        self._meddle()

    def _stop(self) -> None:
        dice, clock = self.dice, self.clock
        if dice.random() < 0.3:
            self.tell("killed")
            self.files.kill()
            clock.now += dice.choice([0.1, 5.0, 100.0])
            return
        self.tell("crash")
        self.files.crash()
        unix_ms = clock.unix_ms + dice.choice([1000, 60_000, 200_000])
        match dice.randrange(8):
            case 0:
                unix_ms = 1000  # no battery behind the clock
            case 1:
                unix_ms -= 3_600_000
        self.boots += 1
        clock.boot = (b"boot %d" % self.boots).ljust(16)
        clock.now = dice.uniform(1.0, 100.0)
        clock.unix_ms_at_zero = max(0, unix_ms) - clock.now * 1000

    def _last_lives(self) -> None:
        """With a disk in good health, and perhaps one bit that is not."""
        self._heal_disk()
        for has_rot in (False, self.plan.has_rot):
            if has_rot:
                self._rot()
                self.memory.has_rot = True
            life = Life(self)
            life.open()
            life.heal()
            life.close()
            self._between()

    def _heal_disk(self) -> None:
        self.tell("the disk is well")
        self.files.faults, self.files.capacity_bytes = Faults(), UNLIMITED
        self.files.stop_in(None)

    def _rot(self) -> None:
        """One bit flips, often in a header, or one block cannot be read."""
        strays = self.files.strays if isinstance(self.files, MeddledFiles) else set()
        sizes = {
            name: size
            for name, size in self.files.sizes().items()
            if "segment" in name and size and Path(name).name not in strays
        }
        if not sizes:
            return
        path = Path(self.dice.choice(sorted(sizes)))
        if self.dice.random() < 0.2:
            offset = self.dice.randrange(sizes[str(path)])
            self.tell(f"spoil byte {offset} of {path}")
            self.files.spoil(path, offset)
            self.memory.spoil(path.name)
            return
        octets = HEADER_BYTES if self.dice.random() < 0.3 else sizes[str(path)]
        bit = self.dice.randrange(octets * 8)
        self.tell(f"flip bit {bit} (byte {bit // 8}) of {path}")
        self.files.flip_bit(path, bit)


def main() -> int:
    name = "python -m tests.simulation.journal_schedules"
    parser = argparse.ArgumentParser(prog=name, description=__doc__)
    parser.add_argument("seed", type=int, help="the first schedule to run")
    parser.add_argument("--count", type=int, default=1, help="how many, from SEED on")
    parser.add_argument("--trace", action="store_true", help="print every call as it happens")
    meddled = "another budget in each life, and other files beside"
    parser.add_argument("--meddled", action="store_true", help=meddled)
    options = parser.parse_args()
    failed = 0
    for seed in range(options.seed, options.seed + options.count):
        trace = say if options.trace else None
        schedule = Schedule(seed, trace, is_meddled=options.meddled)
        try:
            schedule.run()
        except JournalBrokenPromiseError as error:
            failed += 1
            sys.stderr.write(f"{error}\n")
    say(f"{options.count} schedules, {failed} broke a promise")
    return 1 if failed else 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
