"""One life of the production journal: what its owner does with it, and what must hold.

The jobs (groups, looks at the backlog) are done one at a time, as the owner does them; while the
worker is at a call to the file system, the loop goes on.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Protocol

from gateway.core.drop_reasons import Reason
from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.storage.journal.commit_group import CommitGroup
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.numbers import JournalState
from gateway.storage.journal.options import JournalError, JournalOptions
from gateway.storage.journal.segment import DAMAGED_SUFFIX, SEGMENT_NAME
from tests.simulation.journal_judge import Clock, JournalChecker
from tests.simulation.journal_memory import (
    BOUNDED,
    GOES_ON,
    NO,
    RECEIVED,
    STARTS,
    YES,
    Key,
    Memory,
    broken,
)
from tests.simulation.journal_plan import FOLDER, UNLIMITED, Plan
from tests.simulation.outside_force import MeddledFiles
from tests.simulation.simulated_files import SimulatedFiles

GROUPS_MAX = 300  # until it must have come to rest
HEALING_ROUNDS_MAX = 30


class Owner(Protocol):
    """What is the same in all lives of a journal."""

    dice: Random
    plan: Plan
    clock: Clock
    files: SimulatedFiles
    memory: Memory
    options: JournalOptions
    serial: int
    meddler: Random | None  # of who changes the budget and the files between two lives

    def tell(self, what: str) -> None: ...


class Life:
    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.dice = owner.dice
        self.plan = owner.plan
        self.clock = owner.clock
        self.files = owner.files
        self.memory = owner.memory
        self.memory.begin_life(self.clock.boot)
        self.judge = JournalChecker(
            self.memory, self.clock, self.plan.recent_s, has_strays=owner.meddler is not None
        )
        self._found_bytes = 0  # at the start; a larger budget may have left them
        self.journal = Journal(FOLDER, self.files, owner.options)
        self.held: list[Reading] = []  # the core has them
        self.waiting: dict[int, Reading] = {}  # taken on, not yet stored

    def open(self) -> bool:
        """Whether it could be opened."""
        clock, failed = self.clock, self.files.failed
        self.tell(f"life {self.memory.life} at {clock.now:.1f} s, boot {clock.boot!r}")
        try:
            recovered = self.journal.open(clock.now, clock.unix_ms_at_zero, clock.boot)
        except JournalError as error:
            if self.files.failed == failed:
                broken(STARTS, f"will not start: {error}")
            self.tell(f"will not start: {error}")
            return False
        self.tell(f"recovered {recovered}")
        self._note_segments()
        if self.owner.meddler is not None:
            self._found_bytes = self._used_bytes()
        self.judge.recovered(recovered)
        self.held += recovered.received
        self._is_bounded()
        return True

    def tell(self, what: str) -> None:
        self.owner.tell(what)

    def play(self) -> None:
        dice = self.dice
        if dice.random() < self.plan.reads * 2:
            self.read_all()
        for _ in range(self.plan.steps):
            self.clock.now += dice.choice([0.001, 0.1, 0.5, 2.0]) if dice.random() < 0.95 else 95.0
            for _ in range(dice.randint(0, 8)):
                self.act()
            if dice.random() < self.plan.reads:
                self.read()
            elif dice.random() < 0.1:
                self.flush()
            else:
                self.group(is_stopping=False)
        if dice.random() < 0.5:
            self.flush()

    def close(self) -> None:
        self.journal.close()

    # What the core does, at any moment

    def act(self) -> None:
        if self.dice.random() < self.plan.finishes:
            self.finish()
        else:
            stores = [self.store] * 6
            acts = [*stores, *[self.receive] * 2, *[self.release] * 2, self.connect]
            self.dice.choice(acts)()

    def store(self) -> Reason | None:
        dice, owner = self.dice, self.owner
        owner.serial += 1
        qos = dice.choice([0, 1, 1, 2, 2])
        client_id = ClientId(dice.choice(["a", "sensor-2", "a sensor with a long name"]))
        payload = owner.serial.to_bytes(3, "big") + dice.randbytes(
            dice.randrange(self.plan.payload_bytes_max)
        )
        reading = Reading(
            client_id=client_id,
            topic=dice.choice(["t", "sensors/räume/2"]),
            payload=payload if dice.random() < 0.95 else b"",
            qos=qos,
            retain=dice.random() < 0.2,
            topic_id=dice.randrange(1 << 16),
            message_id=dice.randint(1, 12) if qos and dice.random() < 0.97 else 0,  # 0: a will
            received_at=self.clock.now,
            sequence=owner.serial if qos else -1,
            unix_ms=self.clock.unix_ms,
            epoch=self.memory.life,
            packet_id=owner.serial % 65_535 + 1,
        )
        key = client_id, reading.message_id
        if qos == 2 and dice.random() < 0.9 and self._is_taken(key):
            reading.qos = 1
        is_queued = dice.random() < self.plan.queued
        reason = self.journal.store(reading, is_queued=is_queued)
        if reason is not None:
            self.tell(f"refused: {reason}")
            return reason
        self.tell(
            f"store {reading.record} of {client_id}, QoS {reading.qos}, id {reading.message_id}, "
            f"{len(reading.payload)} bytes{', queued' if is_queued else ''}"
        )
        self.memory.store(reading, is_queued=is_queued)
        self.waiting[reading.record] = reading
        self._is_pending_bounded()
        if not is_queued and qos < 2 and dice.random() < 0.05:
            self._finish(reading)  # the broker was faster than the disk
        return None

    def _is_taken(self, key: Key) -> bool:
        waiting = ((reading.client_id, reading.message_id) for reading in self.waiting.values())
        return self.memory.open_exchange(key) is not None or key in waiting

    def finish(self) -> None:
        """One, or the oldest few in their order."""
        held = self.held
        count = min(len(held), self.dice.choice([1, 1, 4, 30]))
        start = 0 if self.dice.random() < 0.5 else self.dice.randrange(len(held) - count + 1)
        for reading in held[start : start + count]:
            self._finish(reading)
        del held[start : start + count]

    def _finish(self, reading: Reading) -> None:
        self.tell(f"finish {reading.record}")
        self.memory.finish(reading.record)
        self.journal.finish(reading)

    def receive(self) -> None:
        told = self.memory.told
        session = self.memory.session
        waiting = [one for one in self.held if not told[one.record].is_received_in(session)]
        of_qos_2 = [reading for reading in waiting if reading.qos == 2]
        if of_qos_2:
            reading = self.dice.choice(of_qos_2)
            mark = self.journal.receive(reading)
            self.tell(f"receive {reading.record}, mark {mark}")
            self.memory.mark(mark, told[reading.record], RECEIVED)

    def connect(self) -> None:
        mark = self.journal.begin_session()
        self.tell(f"connect, mark {mark}")
        self.memory.connect(mark)

    def release(self) -> None:
        keys = [key for key in self.memory.by_key if self.memory.open_exchange(key)]
        if not keys or self.dice.random() < 0.05:
            self.journal.release(ClientId("nobody"), 1)
            return
        key = self.dice.choice(keys)
        told = self.memory.open_exchange(key)
        assert told is not None
        mark = self.journal.release(*key)
        self.tell(f"release {key}, mark {mark}")
        self.memory.mark(mark, told, "released")

    def _meanwhile(self) -> None:
        if self.dice.random() < 0.05:
            self.act()

    # Jobs

    def group(self, *, is_stopping: bool) -> bool:
        """Whether there was something to do."""
        memory, journal = self.memory, self.journal
        group = journal.begin_group(self.clock.now, is_stopping=is_stopping)
        if group is None:
            memory.durable(journal.durable_mark)
            return False
        self._settle_refused(indeterminate=set())
        drops = group.drops
        going = memory.drop(drops.first, drops.first + len(drops.flags)) if drops else []
        error = self._write(group)
        outcome = journal.end_group(group, error)
        self.tell(f"error {error}, room {group.room_error}, stored {len(outcome.stored)}")
        memory.stored([reading.record for reading in outcome.stored])
        self._settle_refused(indeterminate=set(outcome.indeterminate))
        if group.landed is not None:
            memory.segment_begun()
        if drops and drops in group.freed:
            memory.dropped(going, outcome.dropped, is_sure=group.room_error is None)
        else:
            memory.not_dropped(going)
        memory.durable(journal.durable_mark)
        for reading in outcome.stored:
            del self.waiting[reading.record]
            told = memory.told[reading.record]
            if not told.is_queued and told.finished is NO:
                self.held.append(reading)
        self._is_bounded()
        return True

    def _write(self, group: CommitGroup) -> OSError | None:
        self.files.meanwhile = self._meanwhile
        try:
            self.journal.write(group)
        except OSError as error:
            return error
        finally:
            self.files.meanwhile = None
        return None

    def _settle_refused(self, indeterminate: set[Reading]) -> None:
        for number, reading in list(self.waiting.items()):
            if reading.record < 0:
                del self.waiting[number]
                self.memory.not_stored(number, was_written=reading in indeterminate)

    def read(self) -> bool:
        """Whether there may be more."""
        request = self.journal.begin_read(self.clock.now)
        if request is None:
            self.judge.read_to_its_end(set(self.waiting))
            return False
        self.files.meanwhile = self._meanwhile
        try:
            read = self.journal.read(request)
        except OSError as error:
            self.tell(f"read: {error}")
            return False
        finally:
            self.files.meanwhile = None
        readings = self.journal.end_read(request, read)
        self.tell(f"read {[reading.record for reading in readings]}")
        self.judge.read(readings)
        self.held += readings
        return True

    def read_all(self) -> None:
        for _ in range(GROUPS_MAX):
            if not self.read():
                return
        broken(BOUNDED, "the backlog never ends")

    def flush(self) -> None:
        """All that was asked for before becomes durable, if the disk lets it."""
        last_mark = self.memory.last_mark
        self._run_groups()
        # On a full disk whose reserve somebody has taken no mark can be written.
        has_reserve = self.owner.meddler is None or self.plan.capacity_bytes == UNLIMITED
        if self.journal.durable_mark < last_mark and has_reserve and not self.plan.fails:
            # No room for marks: that comes back when readings are finished.
            self.drain()
            self._run_groups()
            if self.journal.durable_mark < last_mark and self.journal.numbers.segments:
                durable = self.journal.durable_mark
                broken(GOES_ON, f"marks up to {last_mark}, durable up to {durable}")

    def _run_groups(self) -> None:
        asked = self.memory.asked_to_finish()
        for _ in range(GROUPS_MAX):
            if not self.group(is_stopping=True):
                break
        else:
            broken(BOUNDED, "the journal never comes to rest")
        if self.journal.state is not JournalState.FAILED and not self.journal.has_pending:
            self.memory.finished(asked)

    def drain(self) -> None:
        """The broker takes all there is."""
        self.read_all()
        for reading in self.held:
            self._finish(reading)
        self.held.clear()

    # What must hold

    def _note_segments(self) -> None:
        names = {Path(path).name for path in self.files.sizes()} - self._strays()
        self.memory.has_segments([name for name in names if SEGMENT_NAME.fullmatch(name)])

    def _strays(self) -> set[str]:
        return self.files.strays if isinstance(self.files, MeddledFiles) else set()

    def _used_bytes(self) -> int:
        strays = self._strays()
        return sum(
            size
            for path, size in self.files.sizes().items()
            if not path.endswith(DAMAGED_SUFFIX) and Path(path).name not in strays
        )

    def _is_bounded(self) -> None:
        self._note_segments()
        used = self._used_bytes()
        # When nothing can be written at all, a segment is made though the budget has no room for
        # it; the one that failed may still be there, because it knows which numbers were used.
        options = self.owner.options
        above = 2 * options.segment_bytes if self.plan.fails else options.segment_bytes
        if used > max(options.size_max_bytes, self._found_bytes) + above:
            broken(BOUNDED, f"{used} bytes of {options.size_max_bytes}: {self.files.sizes()}")

    def _is_pending_bounded(self) -> None:
        pending = sum(len(reading.payload) for reading in self.waiting.values())
        if pending > self.plan.pending_bytes_max:
            broken(BOUNDED, f"{pending} bytes wait for the disk")

    def heal(self) -> None:
        """The disk is well: all comes back, all can be finished, new readings are taken."""
        self.read_all()
        self.judge.told_of_rot()
        for _ in range(HEALING_ROUNDS_MAX):
            self.clock.now += 1.5
            self.group(is_stopping=False)
            self.drain()
            self.flush()
            if self.store() is None and self._is_stored_soon():
                break
        else:
            broken(GOES_ON, f"takes no readings: {self.journal.numbers}")
        if self.journal.numbers.state in (JournalState.FULL, JournalState.FAILED):
            broken(GOES_ON, f"is not well again: {self.journal.numbers}")

    def _is_stored_soon(self) -> bool:
        self.flush()
        return not self.waiting and self.memory.told[max(self.memory.told)].stored is YES
