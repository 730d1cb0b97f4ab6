"""Lives of one journal from a seed: kill the process at any call to the file system, let calls
fail, let a full journal drop; each next life must know what was stored.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from gateway.core.values import Reading, contents_of
from gateway.storage.journal.options import JournalError, WhenFull
from gateway.storage.journal.segment_index import ExchangeKey
from tests.storage.journal.support import (
    SMALL,
    Driven,
    FaultyFiles,
    Killed,
    Total,
    new_reading,
    options,
)

LIVES = 6


@dataclass(frozen=True)
class Weather:
    failing: float = 0.0  # of all calls
    full: float = 0.0  # of the attempts to make a file
    when_full: WhenFull = WhenFull.REJECT


class Lives:
    """What was promised, over all lives, and what this one holds."""

    def __init__(self, seed: int, folder: Path, weather: Weather) -> None:
        self.dice = Random(seed)
        self.folder = folder
        self.weather = weather
        self.kills = 0
        self.stored: dict[int, Reading] = {}  # by sequence
        self.finished: set[int] = set()  # also on disk, or perhaps not
        self.surely_finished: set[int] = set()
        self.unreleased: dict[ExchangeKey, int] = {}
        self.in_doubt: set[ExchangeKey] = set()  # of these, asked for but not confirmed
        self.held: list[Reading] = []  # taken by the core
        self.queued: list[Reading] = []
        self.next_sequence = 0

    def play(self) -> int:
        """Returns how often it was killed."""
        for _ in range(LIVES):
            try:
                with suppress(JournalError):
                    self._live()
            except Killed:
                self.kills += 1
        return self.kills

    def _live(self) -> None:
        dice, weather = self.dice, self.weather
        countdown = dice.randint(5, 400)

        def fault(call: str) -> object:
            nonlocal countdown
            countdown -= 1
            if countdown < 0:
                raise Killed
            if call not in ("open", "read") and dice.random() < weather.failing:
                raise OSError(errno.EIO, "the disk fails")
            if call == "create" and dice.random() < weather.full:
                raise OSError(errno.ENOSPC, "the disk is full")
            return dice.random() < 0.05

        size, recent_s = dice.choice([SMALL // 2, SMALL]), dice.choice([0.0, 90.0])
        journal_options = options(size, weather.when_full, recent_s)
        self.driven = Driven(self.folder, journal_options, FaultyFiles(fault))
        self._check()
        for _ in range(dice.randint(1, 60)):
            self._step()

    # What a life begins with

    def _check(self) -> None:
        recovered = self.driven.recovered
        assert self.weather.failing or recovered.report.damaged == []
        waiting = recovered.received + self.driven.read()
        found = {reading.sequence: reading for reading in waiting}
        assert len(found) == len(waiting), "a reading came twice"
        # What waited when it was killed may have been dropped, with nobody left to be told.
        is_dropping = self.weather.when_full is WhenFull.DROP_OLDEST
        droppable = {reading.sequence for reading in self.queued} if is_dropping else set()
        for sequence, reading in self.stored.items():
            if sequence in droppable - found.keys():
                continue
            assert sequence in found, f"{sequence} was stored and is lost"
            assert found[sequence].payload == reading.payload
        assert not self.surely_finished & found.keys(), "finished, and there again"
        self._check_exchanges()
        self.stored = dict(found)
        self.finished -= found.keys()
        self.held, self.queued = list(found.values()), []

    def _check_exchanges(self) -> None:
        unreleased = {
            (client_id, message_id): contents
            for client_id, exchanges in self.driven.recovered.exchanges.items()
            for message_id, contents in exchanges.unreleased
        }
        for key, contents in self.unreleased.items():
            assert key in self.in_doubt or unreleased.get(key) == contents
        assert unreleased.keys() <= self.unreleased.keys(), "released, and there again"
        self.unreleased = unreleased
        self.in_doubt.clear()

    # What happens in it

    def _step(self) -> None:
        dice, driven = self.dice, self.driven
        driven.now += dice.random()
        new = [reading for _ in range(dice.randint(0, 12)) if (reading := self._store())]
        for reading in dice.sample(self.held, min(len(self.held), dice.randint(0, 14))):
            self._finish(reading)
        total = Total()
        for key in list(self.unreleased):
            if key not in self.in_doubt and dice.random() < 0.4:
                self._release(key, total)
        total.add(driven.run())
        if not driven.journal.has_pending:
            self.surely_finished |= self.finished
        for client_id, count in total.dropped.items():
            self._drop(client_id, count)
        for reading in new:
            self._settle(reading, is_stored=reading.record >= 0)
        if dice.random() < 0.3:
            self._read_back()

    def _store(self) -> Reading | None:
        dice = self.dice
        reading = new_reading(
            self.next_sequence,
            client=f"sensor-{dice.randint(0, 3)}",
            payload=dice.randbytes(dice.choice([1, 100, 3000])),
            qos=dice.choice([1, 2]),
            received_at=self.driven.now,
        )
        reading.message_id = dice.randint(1, 30)
        key = reading.client_id, reading.message_id
        if reading.qos == 2 and key in self.unreleased:
            return None
        reading.retain = dice.random() < 0.5  # stands for "parked"
        if self.driven.journal.store(reading, is_queued=reading.retain) is not None:
            return None
        self.next_sequence += 1
        if reading.qos == 2:
            self.unreleased[key] = contents_of(reading.topic, reading.payload, 2)
            self.in_doubt.add(key)
        return reading

    def _settle(self, reading: Reading, *, is_stored: bool) -> None:
        key = reading.client_id, reading.message_id
        if is_stored:
            self.stored[reading.sequence] = reading
            (self.queued if reading.retain else self.held).append(reading)
        if reading.qos == 2:
            self.in_doubt.discard(key)
            if not is_stored:
                self.in_doubt.add(key)  # it may be on disk though nobody was told so

    def _finish(self, reading: Reading) -> None:
        self.held.remove(reading)
        self.driven.journal.finish(reading)
        del self.stored[reading.sequence]
        self.finished.add(reading.sequence)

    def _release(self, key: ExchangeKey, total: Total) -> None:
        journal = self.driven.journal
        self.in_doubt.add(key)
        mark = journal.release(*key)
        total.add(self.driven.run())
        if journal.durable_mark >= mark:
            del self.unreleased[key]
            self.in_doubt.discard(key)
        else:
            assert self.weather.failing or self.weather.full

    def _drop(self, client_id: str, count: int) -> None:
        """The oldest parked ones of this client."""
        for reading in [kept for kept in self.queued if kept.client_id == client_id][:count]:
            self.queued.remove(reading)
            del self.stored[reading.sequence]

    def _read_back(self) -> None:
        readings = self.driven.read()
        assert [reading.sequence for reading in readings] == [
            reading.sequence for reading in self.queued
        ]
        self.held += readings
        self.queued = []
