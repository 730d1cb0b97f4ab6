"""An engine on the bench with the production journal under it, on files that can lose power.

Nothing reaches the disk until `flush` says so: then one group after the other is written, and its
answers are given to the engine, which may ask for more.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import mqtt5

from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    Durable,
    Effect,
    Finish,
    FinishRun,
    KeepRecord,
    ReadAgain,
    ReadBacklog,
    RecordConnect,
    RecordReceived,
    RecordRelease,
    Store,
    Unqueue,
)
from gateway.core.engine import EngineOptions
from gateway.core.mqtt.options import MqttOptions
from gateway.core.mqtt.session import Phase
from gateway.core.state_records import ClientId
from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.core.uplink.uplink import UplinkOptions
from gateway.core.values import Reading
from gateway.storage.journal.journal import CommitGroup, Journal
from gateway.storage.journal.options import JournalOptions
from tests.simulation.simulated_files import SimulatedFiles
from tests.support.engine_bench import Bench

FOLDER = Path("/journal")
BOOT = b"the only boot..."
BUDGET = 512 << 10
SALTS = Random(1)  # one for all lives: a salt must not come twice


def options_of(
    reading_rules: ReadingOptions | None = None,
    *overrides: tuple[str, ReadingOptions],
    epoch: int = 3,
    trust_session: bool = False,
    waiting_messages_max: int = 100_000,
) -> EngineOptions:
    """`auto`, if nothing else is said."""
    default = reading_rules or ReadingOptions(Acknowledge.AUTO)
    upstream = MqttOptions(
        "gh",
        epoch,
        "tidegate-gh",
        trust_session=trust_session,
        waiting_messages_max=waiting_messages_max,
        probe_s=0.0,
    )
    return EngineOptions(upstream, uplink=UplinkOptions(default, overrides))


class JournalBench(Bench):
    def __init__(
        self,
        options: EngineOptions | None = None,
        *,
        connected: bool = True,
        files: SimulatedFiles | None = None,
        at: float = 0.0,
    ) -> None:
        super().__init__(options or options_of(), connected=False)
        self.at = at
        self.files = files or SimulatedFiles(Random(1))
        self.stores: list[Reading] = []  # what was asked to be stored, ever
        self.finished: list[int] = []  # by their numbers in the journal
        journal_options = JournalOptions(BUDGET, salt=lambda: SALTS.getrandbits(32))
        self.journal = Journal(FOLDER, self.files, journal_options)
        self.recovered = self.journal.open(at, 0.0, BOOT)
        self.asked_again: list[tuple[int, ...]] = []
        self._waiting: list[tuple[int, Durable]] = []
        self._refused: list[tuple[Reading, Reason]] = []
        self._reads = False
        self.restore()
        if connected:
            self.connect_broker()

    def restore(self) -> None:
        found = self.recovered
        self.take(
            self.engine.restore_readings(
                found.queued,
                found.received,
                found.exchanges,
                found.last_packet_id,
                self.at,
                found.kept,
            )
        )

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Store):
                self.stores.append(effect.reading)
                reason = self.journal.store(effect.reading, is_queued=effect.is_queued)
                if reason is not None:
                    self._refused.append((effect.reading, reason))
            elif isinstance(effect, Finish):
                self.finished.append(effect.reading.record)
                self.journal.finish(effect.reading)
            elif isinstance(effect, RecordReceived):
                self._waiting.append((self.journal.receive(effect.reading), effect.then))
            elif isinstance(effect, RecordConnect):
                self._waiting.append((self.journal.begin_session(), effect.then))
            elif isinstance(effect, RecordRelease):
                mark = self.journal.release(effect.client_id, effect.message_id)
                if effect.then is not None:
                    self._waiting.append((mark, effect.then))
            elif isinstance(effect, ReadBacklog):
                self._reads = True
            else:
                self._take_of_custody(effect)

    def _take_of_custody(self, effect: Effect) -> None:
        if isinstance(effect, KeepRecord):
            self.journal.keep(effect.record)
        elif isinstance(effect, Unqueue):
            self.journal.unqueue(effect.record)
        elif isinstance(effect, FinishRun):
            self.finished += range(effect.record, effect.record + effect.count)
            self.journal.finish_run(effect.record, effect.count)
        elif isinstance(effect, ReadAgain):
            self.asked_again.append(effect.records)
        else:
            super().take([effect])

    def connect_broker(self, **connack: Any) -> None:
        self.take(self.engine.opened(self.at))
        while self.engine.upstream.phase is Phase.RECORDING:
            assert self.write(), "CONNECT waits for the journal"
            self._tell_durable()
        self.from_broker(mqtt5.ConnAckPacket(**connack).write())

    # The disk

    def write(self) -> bool:
        """One group to the disk, and the answers; False if there is nothing to write."""
        group = self.journal.begin_group(self.at)
        if group is None:
            return False
        self.end_write(group)
        return True

    def end_write(self, group: CommitGroup) -> None:
        """Of one that was begun before, so that things may happen meanwhile."""
        error: OSError | None = None
        try:
            self.journal.write(group)
        except OSError as raised:
            error = raised
        outcome = self.journal.end_group(group, error)
        if outcome.stored:
            self.take(self.engine.stored(outcome.stored, self.at))
        if outcome.indeterminate:
            self.take(self.engine.indeterminate(outcome.indeterminate, outcome.reason, self.at))
        if outcome.not_stored:
            self.take(self.engine.not_stored(outcome.not_stored, outcome.reason, self.at))

    def read(self, *, and_loses: bool = False) -> bool:
        """One look at the backlog, if the engine asked; `and_loses`: nothing of it can be read."""
        if not self._reads:
            return False
        self._reads = False
        request = None if and_loses else self.journal.begin_read(self.at)
        readings = []
        if request is not None:
            readings = self.journal.end_read(request, self.journal.read(request))
        self.take(self.engine.read_back(readings, self.at))
        return True

    def read_again(self, *, and_loses: bool = False) -> None:
        """What the engine asked to be read again; `and_loses`: nothing of it can be read."""
        request = self.journal.begin_again(self.asked_again.pop(), self.at)
        readings = [] if and_loses else self.journal.read(request)
        self.take(self.engine.read_again(readings, self.at))

    def flush(self) -> None:
        """All that is pending becomes durable, and what that leads to."""
        while self._refused or self.write() or self.read() or self._tell_durable():
            refused, self._refused = self._refused, []
            for reading, reason in refused:
                self.take(self.engine.not_stored([reading], reason, self.at))

    def _tell_durable(self) -> bool:
        ready = [then for mark, then in self._waiting if mark <= self.journal.durable_mark]
        self._waiting = [one for one in self._waiting if one[0] > self.journal.durable_mark]
        if ready:
            self.take(self.engine.durable(ready, self.at))
        return bool(ready)

    def drop_oldest(self, client_id: str, count: int) -> None:
        """What the journal does with `when_full = "drop_oldest"`."""
        self.take(self.engine.dropped_oldest({ClientId(client_id): count}, self.at))
