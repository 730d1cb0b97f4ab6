"""Readings that must survive power loss: taken on, made durable in groups, read back, finished.

Rule 1: a reading is stored when the group that has it was synced, here or in another segment.
Rule 2: one job at a time, begun and ended by the loop, done by one worker: begin_group, write,
        end_group; or begin_read, read, end_read. `store`, `finish`, `receive` and `release` may
        come at any moment, also during a job; they touch nothing that a worker uses.
Rule 3: no clock. Times are monotonic seconds, given by the caller.
Rule 4: when there is no room, or nothing can be written, new readings are refused; finishing,
        releasing and reading back go on.

Limits: options.py. How the parts work: segment.py, records.py (on disk), segment_index.py (what is
known), completions.py (what waits to be written), space.py (budget), segment_files.py (files),
recovery.py.
"""

from __future__ import annotations

import errno
from math import inf
from pathlib import Path

from gateway.core.drop_reasons import Reason
from gateway.core.process_pauses import ProcessPauses
from gateway.core.state_records import ClientId
from gateway.core.values import Reading, contents_of
from gateway.storage.journal.backlog import Backlog
from gateway.storage.journal.checksums import PREFERRED
from gateway.storage.journal.commit_group import BacklogRequest as BacklogRequest
from gateway.storage.journal.commit_group import CommitGroup as CommitGroup
from gateway.storage.journal.commit_group import Outcome as Outcome
from gateway.storage.journal.commit_group import PathCheck as PathCheck
from gateway.storage.journal.commit_group import Pending, Stretch
from gateway.storage.journal.completions import Completions
from gateway.storage.journal.files import Files
from gateway.storage.journal.numbers import JournalNumbers, JournalState
from gateway.storage.journal.options import LAZY_SYNC_S, RETRY_AFTER_S, JournalOptions
from gateway.storage.journal.reading import count_queued, read_backlog
from gateway.storage.journal.records import is_queued, reading_body, reading_flags
from gateway.storage.journal.recovered import Recovered
from gateway.storage.journal.recovery import Clocks, Recovery
from gateway.storage.journal.repair import Repair, journal_error
from gateway.storage.journal.segment import HEADER_BYTES, NO_BOOT, Header
from gateway.storage.journal.segment_choice import is_blocked, place, size_of
from gateway.storage.journal.segment_files import SegmentFiles
from gateway.storage.journal.segment_index import (
    FINISHED,
    PARKED,
    RECEIVED,
    TAKEN,
    Exchange,
    Segment,
    SegmentIndex,
)
from gateway.storage.journal.space import Space


class Journal:
    def __init__(self, folder: Path, files: Files, options: JournalOptions) -> None:
        self.unix_ms_at_zero = 0.0  # set it again when the wall clock was set
        self.lost_in: list[str] = []  # segments, by the last `end_read`
        self.refused: OSError | None = None  # by the disk, at the start
        self.pauses = ProcessPauses()  # that the core's clock leaves out, and files do not
        self._folder = folder
        self._files = files
        self._options = options
        self._segment_index = SegmentIndex()
        self._volume = SegmentFiles(folder, files, options)
        self._completions = Completions(self._segment_index)
        self._room = Space(options, self._segment_index, self._volume)
        self._reading_bytes_max = self._room.group_bytes_max(options.segment_bytes)
        self._boot_id = NO_BOOT
        self._next = 0  # the next reading's number
        self._bound = 0  # below it every reading is durable, or is void
        self._pending: list[Pending] = []
        self._pending_bytes = 0
        self._room_left = 0  # when the last job ended
        self._early: set[int] = set()  # finished before they were stored
        self._is_wanted = False  # a reading was refused
        self._failed_until: float | None = None  # nothing can be written; when to try again
        self._unsynced_since: float | None = None
        self._can_drop = False
        self._refused_bytes = 0  # of the last reading, if it was refused for want of room
        self._backlog = Backlog(self._segment_index)
        self._numbers = JournalNumbers(bytes_max=options.size_max_bytes)
        self._is_degraded = False
        self._gone: dict[str, str] = {}  # files of unfinished readings, as the last look found them
        self._now = self._began = 0.0

    # Start

    def open(self, now: float, unix_ms_at_zero: float, boot_id: bytes) -> Recovered:
        """Read what a previous run left, and be ready. I/O. Raises JournalError."""
        self._now, self.unix_ms_at_zero, self._boot_id = now, unix_ms_at_zero, boot_id
        self._began = now
        clocks = Clocks(
            now=now,
            unix_ms_at_zero=unix_ms_at_zero,
            boot_id=boot_id,
            recent_s=self._options.recent_s,
        )
        opening = Repair(self._folder, self._files, self._options)
        recovery = opening.run(self._segment_index, self._volume, clocks)
        self._take_over(recovery)
        if self._volume.writing is not None:
            self._segment_index.current = self._segment_index.segments[-1]
        self._make_ready(now)
        return recovery.recovered

    def open_to_read(
        self, now: float, unix_ms_at_zero: float, boot_id: bytes, refused: OSError
    ) -> Recovered:
        """The same on a disk that takes no writes, as `open` found: what is there is read back, and
        the journal has failed. It goes on by itself when it can be written again, unless something
        could not even be opened: what would be numbered as new might be there already. I/O.
        """
        self._now, self.unix_ms_at_zero, self._boot_id = now, unix_ms_at_zero, boot_id
        self._began, self.refused = now, refused
        clocks = Clocks(now, unix_ms_at_zero, boot_id, self._options.recent_s)
        opening = Repair(self._folder, self._files, self._options)
        recovery = opening.read_only(self._segment_index, self._volume, clocks)
        self._take_over(recovery)
        self._failed_until = now + RETRY_AFTER_S if opening.is_whole else inf
        self._room_left = self._room.left()
        return recovery.recovered

    def _take_over(self, recovery: Recovery) -> None:
        self._next = self._bound = recovery.facts.next_number
        self._completions.done_up_to = recovery.facts.done_up_to
        for number in recovery.superseded:
            self._completions.add_released(number)
        self._numbers.damaged = len(recovery.damaged)

    def _make_ready(self, now: float) -> None:
        """A segment to write to, and a spare, as far as there is room for them."""
        for _ in range(4):
            if self._segment_index.current is not None and self._volume.spares:
                break
            group = self.begin_group(now)
            if group is None:
                break
            error = None
            try:
                self.write(group)
            except OSError as raised:
                error = raised
            self.end_group(group, error)
            error = error or group.room_error
            if error is not None and error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise journal_error(self._folder, error)
        self._room_left = self._room.left()

    # From the loop, at any moment

    def store(self, reading: Reading, *, is_queued: bool) -> Reason | None:
        """Take a reading on and number it; or say why not. It is stored when `end_group` says so.
        `is_queued`: it shall be read back later.
        """
        if self._failed_until is not None:
            self._is_wanted = True
            return Reason.JOURNAL_FAILED
        body = reading_body(reading, self.pauses.machine_time(reading.received_at))
        pending = reading, reading_flags(reading, queued=is_queued), body
        size = size_of(pending)
        if size > self._reading_bytes_max:
            return Reason.PAYLOAD_TOO_LARGE
        pending_bytes = self._pending_bytes + size
        if pending_bytes > self._options.pending_bytes_max:
            return Reason.JOURNAL_FULL
        if pending_bytes > self._room_left and not self._can_drop:
            self._is_wanted, self._refused_bytes = True, size
            return Reason.JOURNAL_FULL
        self._pending_bytes, self._refused_bytes = pending_bytes, 0
        reading.record = self._next
        self._next += 1
        self._pending.append(pending)
        return None

    def finish(self, reading: Reading) -> None:
        """The reading is acknowledged, or given up; lazily written."""
        if reading.record >= 0:
            self.finish_run(reading.record, 1)

    def finish_run(self, first: int, count: int) -> None:
        """So many from this number on."""
        end = first + count
        if end > self._bound:
            self._early.update(range(max(first, self._bound), end))
            end = self._bound
        finished = self._segment_index.finish(first, end)
        self._numbers.finished += len(finished)
        self._completions.add_done(finished)

    def unqueue(self, number: int) -> None:
        """A queued on disk reading, stored just now, goes on without being read back."""
        self._segment_index.take(number)

    def keep(self, number: int) -> None:
        """The broker has it, and it stays until it is finished; lazily written."""
        segment = self._segment_index.find(number)
        if segment is not None and segment.keep(number - segment.first):
            self._completions.add_kept(number)

    def receive(self, reading: Reading) -> int:
        """The broker has received this QoS 2 reading. Returns the number of this mark: it is
        durable once `durable_mark` has reached it.
        """
        if reading.record < 0:
            return self._completions.last
        self._segment_index.flag(reading.record, RECEIVED)
        return self._completions.await_received(reading.record)

    def begin_session(self) -> int:
        """The broker is asked for its session, which may be another from now on: what it had
        received counts no more, until it is recorded again. Returns as `receive` does.
        """
        return self._completions.await_session(self._segment_index.begin_session())

    def release(self, client_id: ClientId, message_id: int) -> int:
        """The client has released this message id of a QoS 2 reading. Returns as `receive` does."""
        number = self._segment_index.end_exchange((client_id, message_id))
        if number is None:
            return self._completions.last
        return self._completions.await_released(number)

    @property
    def durable_mark(self) -> int:
        return self._completions.durable

    @property
    def last_mark(self) -> int:
        return self._completions.last

    @property
    def awaited(self) -> int:
        """For how many readings and marks of the next group somebody waits."""
        return len(self._pending) + self._completions.awaited

    @property
    def unstored(self) -> int:
        """Readings that are not on the disk; so the journal has acknowledged none of them."""
        return len(self._pending)

    @property
    def is_urgent(self) -> bool:
        """Somebody waits for the next group."""
        return self.awaited > 0

    @property
    def has_pending(self) -> bool:
        return bool(self._pending) or self._completions.is_any

    @property
    def needs_room(self) -> bool:
        """Room is to be made at once: the next readings depend on it."""
        return self._failed_until is None and self._room.needs_spare(self._now)

    # From the loop, around a job

    def begin_group(self, now: float, *, is_stopping: bool = False) -> CommitGroup | None:
        """What is to be written, and what room is to be made; None if that is nothing."""
        self._now = now
        if self._failed_until is not None and now < self._failed_until:
            return None
        group = CommitGroup(self._next_header(), self._segment_index.session)
        self._completions.take(group, group.header.done_below - 1, self._room.takes())
        current = self._segment_index.current
        is_stuck = is_blocked(self._pending, current, self._room)
        wanted_bytes = size_of(self._pending[0]) if is_stuck else 0
        is_wanted = is_stuck or self._is_wanted
        self._room.plan(group, now, is_wanted=is_wanted, wanted_bytes=wanted_bytes)
        self._is_wanted = False
        place(group, [] if is_stuck else self._pending, current, self._room)
        if is_stuck and not group.makes_room:
            # Their numbers were never written, so the next ones may have them.
            self._next = self._pending[0][0].record
            group.refused = self._give_up_pending()
        group.is_lazy = self._is_lazy(group, is_stopping=is_stopping)
        if group.has_work or (not group.is_lazy and self._unsynced_since is not None):
            return group
        return None

    def _next_header(self) -> Header:
        unfinished = self._segment_index.first_unfinished()
        done_below = self._bound
        if unfinished is not None:
            done_below = unfinished[0].first + unfinished[1]
        first = self._pending[0][0].record if self._pending else self._next
        return Header(
            algorithm=int(PREFERRED),
            salt=0,
            first=first,
            bound=self._bound,
            done_below=done_below,
            serial=0,
            boot_id=self._boot_id,
        )

    def _is_lazy(self, group: CommitGroup, *, is_stopping: bool) -> bool:
        """Only what nobody waits for, and not too much of it, and not for too long."""
        if group.readings or group.awaited or group.restated_bytes or group.starts_segment:
            return False
        writing, since = self._volume.writing, self._unsynced_since
        if writing is None or is_stopping:
            return writing is None
        unsynced = writing.end - writing.synced + group.marks_bytes
        is_late = since is not None and self._now - since >= LAZY_SYNC_S
        return unsynced <= self._options.lazy_bytes_max and not is_late

    def end_group(self, group: CommitGroup, error: OSError | None) -> Outcome:
        """What came of it. `error`: what `write` raised."""
        outcome = Outcome(dropped=group.dropped)
        self._segment_index.begin(group.started, group.abandoned)
        for key, exchange in group.restated_exchanges if group.abandoned else ():
            self._segment_index.may_have_moved(key, exchange, group.abandoned)
        if error is None:
            self._land(group, outcome)
        else:
            self._fail(group, outcome, error)
        outcome.not_stored += group.refused
        self._settle_room(group)
        return outcome

    def _land(self, group: CommitGroup, outcome: Outcome) -> None:
        segment_index = self._segment_index
        if group.landed is not None:
            self._failed_until = None
            current = segment_index.current = segment_index.segments[-1]
            current.end, current.has_landed = group.end, True
            self._settle(current, group.readings)
            outcome.stored = [reading for reading, _, _ in group.readings]
            self._completions.settle(group)
            self._settle_restated(group, current)
        del self._pending[: len(group.readings)]
        if group.failures:
            self._is_degraded = True
        if not group.is_lazy:
            self._unsynced_since = None
        elif group.marks and self._unsynced_since is None:
            self._unsynced_since = self._now

    def _settle(self, segment: Segment, readings: list[Pending]) -> None:
        early, first = self._early, segment.first
        for reading, written, _ in readings:
            number = reading.record
            flags = PARKED if is_queued(written) else TAKEN
            if early and number in early:
                early.remove(number)
                self._completions.add_done((number,))
                self._numbers.finished += 1
                flags |= FINISHED
            machine_at = self.pauses.machine_time(reading.received_at)
            segment.add(number - first, flags, machine_at)
            self._bound = number + 1
            if reading.qos == 2 and reading.message_id:  # a will has none: nobody releases it
                self._begin_exchange(segment, reading)
        self._pending_bytes -= sum(map(size_of, readings))

    def _begin_exchange(self, segment: Segment, reading: Reading) -> None:
        contents = contents_of(reading.topic, reading.payload, 2)
        key = reading.client_id, reading.message_id
        exchange = Exchange(reading.record, contents)
        replaced = self._segment_index.begin_exchange(segment, key, exchange)
        if replaced is not None:
            self._completions.add_released(replaced)

    def _settle_restated(self, group: CommitGroup, current: Segment) -> None:
        for about in group.restated_segments:
            for segment in self._segment_index.segments:
                segment.about.discard(about.serial)
        current.about |= group.about - {current.serial}
        for key, exchange in group.restated_exchanges:
            self._segment_index.move_exchange(key, exchange, current)

    def _fail(self, group: CommitGroup, outcome: Outcome, error: OSError) -> None:
        """Nothing of it is stored, and nothing else can be."""
        self._segment_index.current = None
        self._failed_until = self._now + RETRY_AFTER_S
        self._unsynced_since = None
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        outcome.reason = Reason.JOURNAL_FULL if is_full else Reason.JOURNAL_FAILED
        given_up = self._give_up_pending()
        tried = len(group.readings) if group.was_tried else 0
        outcome.indeterminate, outcome.not_stored = given_up[:tried], given_up[tried:]

    def _give_up_pending(self) -> list[Reading]:
        readings = [reading for reading, _, _ in self._pending]
        for reading in readings:
            self._early.discard(reading.record)
            reading.record = -1
        self._pending.clear()
        self._pending_bytes = 0
        return readings

    def _settle_room(self, group: CommitGroup) -> None:
        """After each job."""
        for segment in group.freed:
            self._completions.forget(segment.first, segment.first + len(segment.flags))
            self._segment_index.remove(segment)
        numbers = self._numbers
        numbers.dropped += sum(group.dropped.values())
        numbers.groups += bool(group.readings or group.marks)
        numbers.readings += len(group.readings) if group.landed is not None else 0
        numbers.syncs += group.syncs
        numbers.bytes_written += group.bytes_written
        numbers.failures += group.failures + (group.room_error is not None)
        room = self._room
        room.settle(group, self._now)
        if group.room_error is not None and self._failed_until is not None:
            self._failed_until = self._now + RETRY_AFTER_S
        elif group.spare_bytes and group.room_error is None:
            self._is_degraded = False
        self._room_left = room.left()
        self._can_drop = room.can_drop()

    def begin_read(self, now: float) -> BacklogRequest | None:
        """None: there is no backlog (left)."""
        stretches = self._backlog.begin()
        if not stretches:
            return None
        return BacklogRequest(
            stretches=stretches,
            now=now,
            unix_ms_at_zero=self.unix_ms_at_zero,
            began=self._began,
            accepts_gaps=self._backlog.accepts_gaps(now),
        )

    def end_read(self, request: BacklogRequest, readings: list[Reading]) -> list[Reading]:
        """Those of them that are still wanted. That there are none does not mean that there will
        be none; `begin_read` tells.
        """
        taken, lost = self._backlog.end(request, readings)
        found = [self._segment_index.find(number) for number in lost]
        self.lost_in = list(dict.fromkeys(each.name for each in found if each is not None))
        for number in lost:
            self.finish_run(number, 1)
        self._numbers.lost += len(lost)
        return self.end_again(taken)

    def begin_again(self, numbers: tuple[int, ...], now: float) -> BacklogRequest:
        """To read these once more, wherever they went; `read` brings as many as it does at once."""
        segments = dict.fromkeys(filter(None, map(self._segment_index.find, numbers)))
        stretches = [
            Stretch(segment=each, offset=0, end=each.end, read_to=HEADER_BYTES) for each in segments
        ]
        at_zero, wanted = self.unix_ms_at_zero, frozenset(numbers)
        return BacklogRequest(
            stretches=stretches, now=now, unix_ms_at_zero=at_zero, began=self._began, numbers=wanted
        )

    def end_again(self, readings: list[Reading]) -> list[Reading]:
        """As the core has them, which leaves out pauses."""
        if self.pauses.left_out_s:
            for reading in readings:
                reading.received_at = self.pauses.core_time(reading.received_at)
        return readings

    # From the loop, around a look

    def begin_look(self) -> PathCheck:
        """At the files of all that is not finished, and those that could not be opened."""
        names = [segment.name for segment in self._segment_index.segments if segment.unfinished]
        return PathCheck(names, [segment.name for segment in self._backlog.out_of_reach])

    def end_look(self, look: PathCheck, now: float) -> int:
        """What it found; returns how many readings queued on disk are in reach again."""
        self._now = now
        if look.error is not None:
            self._segment_index.begin([], look.abandoned)
            self._segment_index.current = None
            self._failed_until = max(self._failed_until or 0.0, now + RETRY_AFTER_S)
            self._unsynced_since = None
        self._gone = look.problems
        return sum(
            self._backlog.can_be_opened(segment)
            for segment in self._segment_index.segments
            if segment.name in look.tried and segment.name not in look.problems
        )

    def wake_at(self) -> float | None:
        """When `begin_group` will have something to do though nothing new is pending."""
        if self._failed_until is not None:
            return self._failed_until
        times = [self._room.wake_at(self._now)]
        if self._unsynced_since is not None:
            times.append(self._unsynced_since + LAZY_SYNC_S)
        return min((time for time in times if time is not None), default=None)

    @property
    def lost(self) -> int:
        """Readings that could not be read back, so far."""
        return self._numbers.lost

    @property
    def numbers(self) -> JournalNumbers:
        """As they are now; the same object each time."""
        numbers, segments = self._numbers, self._segment_index.segments
        numbers.state = self.state
        numbers.kept = sum(segment.kept for segment in segments)
        numbers.depth = sum(segment.unfinished for segment in segments) - numbers.kept
        numbers.queued = sum(segment.queued for segment in segments)
        numbers.bytes = self._room.bytes
        numbers.fill = sum(segment.held_bytes for segment in segments) / numbers.bytes_max
        numbers.oldest_received_at = self._segment_index.first_waiting_since()
        numbers.segments = len(segments)
        out_of_reach = self._backlog.out_of_reach
        numbers.backlog_problem = self._backlog.problem
        if self._gone:
            out_of_reach += [
                each for each in segments if each.name in self._gone and each not in out_of_reach
            ]
            numbers.backlog_problem = next(iter(self._gone.values()))
        numbers.out_of_reach = sum(each.queued for each in out_of_reach)
        return numbers

    @property
    def state(self) -> JournalState:
        if self._failed_until is not None:
            return JournalState.FAILED
        if self._refused_bytes and self._pending_bytes + self._refused_bytes > self._room_left:
            return JournalState.FULL
        return JournalState.DEGRADED if self._is_degraded else JournalState.OK

    # From the worker

    def write(self, group: CommitGroup) -> None:
        """Make it durable, then make room. I/O. Raises OSError if it cannot be made durable."""
        drops, dropped = group.drops, {}
        if drops is not None:
            try:
                dropped = count_queued(self._files, self._volume.open_segment, drops)
            except OSError as error:  # nobody could be told whose readings they were
                group.room_error = error
        self._volume.write(group)
        if group.room_error is None:
            self._volume.make_room(group)
        if drops in group.freed:
            group.dropped = dropped

    def read(self, request: BacklogRequest) -> list[Reading]:
        """The next readings of the backlog, in their order. I/O."""
        return read_backlog(self._files, self._volume.open_segment, request)

    def look(self, look: PathCheck) -> None:
        """Are the files where they were? I/O; raises nothing."""
        self._volume.look(look)

    def close(self) -> None:
        """What was not written is lost; see `begin_group(is_stopping=True)`."""
        self._volume.close()
