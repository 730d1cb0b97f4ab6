"""A gateway on the bench that can lose its power: engine, journal and state store, life after life.

`crash` is a power cut of the worst kind: nothing is left but what was synced, or committed. What
the state store is told is committed at once, unless `holds_state` is set.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from random import Random

from gateway.core.effects import Effect, Save, WhenSaved
from gateway.core.engine import EngineOptions
from gateway.frames import Connack, Connect, Frame
from gateway.storage.state.pending import Pending
from gateway.storage.state.store import StateStore
from tests.simulation.simulated_disk import Survival
from tests.simulation.simulated_files import SimulatedFiles
from tests.support.journal_bench import JournalBench, options_of

LINKS = ["udp"]


class CrashBench(JournalBench):
    def __init__(
        self,
        options: EngineOptions | None = None,
        *,
        files: SimulatedFiles | None = None,
        database: sqlite3.Connection | None = None,
        at: float = 0.0,
    ) -> None:
        self._database = database or sqlite3.connect(":memory:")
        self._store = StateStore(self._database, LINKS)
        self._pending = Pending()
        self.holds_state = False
        given = options or options_of()
        epoch = self._store.raise_epoch(0)
        self._given = replace(given, saves=True, upstream=replace(given.upstream, epoch=epoch))
        files = files or SimulatedFiles(Random(1))
        super().__init__(self._given, connected=False, files=files, at=at)

    def restore(self) -> None:
        self.take(self.engine.restore(self._store.load(), self.at))
        super().restore()

    def crash(self) -> CrashBench:
        """The next life."""
        self.files.crash(Survival.NOTHING)
        return CrashBench(self._given, files=self.files, database=self._database, at=self.at + 1.0)

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Save):
                self._pending.add(effect.change, self.at)
            elif isinstance(effect, WhenSaved):
                self._pending.wait(effect.then, self.at)
            else:
                super().take([effect])

    def write_only(self) -> None:
        """What is pending reaches the disk, and nobody hears of it."""
        group = self.journal.begin_group(self.at)
        assert group is not None
        self.journal.write(group)

    def commit(self) -> None:
        """All that waits for the state store goes on."""
        while (batch := self._pending.take()) is not None:
            self._store.commit(batch.changes)
            self._pending.committed(batch)
            self.take(self.engine.durable(batch.waiting, self.at))

    def commit_only(self) -> None:
        """What is to be saved is committed, and nobody hears of it."""
        batch = self._pending.take()
        assert batch is not None
        self._store.commit(batch.changes)

    def say(self, address: bytes, *frames: Frame) -> list[Frame]:
        heard = super().say(address, *frames)
        if not self.holds_state:
            self.commit()
        return heard + self.hear(address)

    def from_broker(self, octets: bytes) -> None:
        super().from_broker(octets)
        if not self.holds_state:
            self.commit()

    def wake(self, now: float) -> None:
        super().wake(now)
        if not self.holds_state:
            self.commit()

    def connect(self, name: bytes) -> None:
        """A client with a session that stays."""
        assert Connack(0) in self.say(name, Connect(name, 60))
