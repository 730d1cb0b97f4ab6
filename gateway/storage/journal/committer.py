"""The journal beside the event loop: effects in, one group after the other through one thread.

Rule 1: the first who waits starts a group after `linger_s`, or with the loop's next turn when as
        many wait as the last group was for (eight at least). What comes during a group joins the
        next, which starts with the turn after that one's end, so that it has what waits in the
        sockets by then: under load this is half as many groups, and no timer is waited for.
Rule 2: what nobody waits for (finished readings) is written at a slower beat.
Rule 3: answers never come from inside `perform`: refusals come with the loop's next turn.

Every policy that matters for what is safe is in `Journal`; here is only when.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TypeVar, assert_never

from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    Durable,
    Finish,
    FinishRun,
    JournalWork,
    KeepRecord,
    ReadAgain,
    ReadBacklog,
    RecordConnect,
    RecordReceived,
    RecordRelease,
    Store,
    Unqueue,
)
from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.host.causes import brief
from gateway.storage.journal.commit_group import BacklogRequest, CommitGroup, PathCheck
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.numbers import JournalNumbers, JournalState
from gateway.storage.journal.options import LOOK_S, UNREADABLE_S
from gateway.storage.worker import Jobs, WorkThread

LINGER_S = 0.002
GROUP_MIN = 8  # so many readings and marks need not linger
BEAT_S = 0.1  # for what nobody waits for
IDLE_S_MIN = 0.05  # between two looks that nobody asked for
RETRY_READ_S = 1.0
# A look at the files waits so long for readings that wait themselves: each group looks as well.
LOOK_PATIENCE_S = 5.0
SLOW_S = 3.0  # a job that takes longer is the disk's doing

_Rarer = FinishRun | KeepRecord | Unqueue | ReadAgain | RecordConnect | RecordReceived | ReadBacklog

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class JournalCallbacks:
    """Who hears what came of it."""

    stored: Callable[[list[Reading]], None]
    indeterminate: Callable[[list[Reading], Reason], None]
    not_stored: Callable[[list[Reading], Reason], None]
    durable: Callable[[list[Durable]], None]
    backlog: Callable[[list[Reading]], None]
    read_again: Callable[[list[Reading]], None]
    dropped_oldest: Callable[[dict[ClientId, int]], None]
    state_changed: Callable[[JournalState, str], None]
    # Readings queued on disk that were out of reach, and are not any more.
    in_reach_again: Callable[[int], None]
    # How many readings queued on disk are out of reach and why; none: all can be read again.
    out_of_reach: Callable[[int, str], None]
    lost: Callable[[int, str], None]  # so many could not be read back, of which segments


class JournalCommitter:
    def __init__(
        self,
        *,
        journal: Journal,
        loop: asyncio.AbstractEventLoop,
        callbacks: JournalCallbacks,
        linger_s: float = LINGER_S,
        thread: Jobs | None = None,
        look_s: float = LOOK_S,
    ) -> None:
        self._journal = journal
        self._loop = loop
        self._callbacks = callbacks
        self._linger_s = linger_s
        self._worker = thread or WorkThread(loop, "journal")
        self._is_idle = asyncio.Event()  # no job runs
        self._is_idle.set()
        self._jobs = 0  # begun so far
        self._looks = 0  # of these, those at the files
        self._begun_at = 0.0  # the last one
        self._took_s = 0.0  # the last one that has ended
        self._is_refused = False  # that one, by the disk
        self._is_unreadable = False  # the last look at the backlog was refused
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._last_group = 0  # readings and marks in it that somebody waited for
        self._waiting: deque[tuple[int, Durable]] = deque()  # by mark
        self._refused: dict[Reason, list[Reading]] = {}
        self._group_at = 0.0  # when the last one began
        self._was_group = False  # the last job
        self._look_s = look_s
        self._look_at = loop.time() + look_s  # at the files, by a job of its own
        self._problem_told = ""  # with the backlog
        self._read_at = 0.0  # not before that
        self._again_at = 0.0
        self._again_failed_at: float | None = None
        self._reads = False  # the core waits for its backlog
        self._again: tuple[int, ...] = ()  # and for these
        self._state = JournalState.OK
        self._problem = ""
        self._is_stopping = False
        self._note(journal.refused)
        if self._look_at < inf:
            self._set_alarm(self._look_at)

    # From the shell

    def perform(self, work: Iterable[JournalWork]) -> None:
        """All that one input brought, in order."""
        store, finish = self._journal.store, self._journal.finish
        for effect in work:
            if isinstance(effect, Store):
                reason = store(effect.reading, is_queued=effect.is_queued)
                if reason is not None:
                    self._refuse(effect.reading, reason)
            elif isinstance(effect, Finish):
                finish(effect.reading)
            elif isinstance(effect, RecordRelease):
                mark = self._journal.release(effect.client_id, effect.message_id)
                if effect.then is not None:
                    self._waiting.append((mark, effect.then))
            else:
                self._perform_rarer(effect)
        if self._is_idle.is_set():
            self._schedule()

    def _perform_rarer(self, effect: _Rarer) -> None:
        journal = self._journal
        match effect:
            case RecordReceived():
                self._waiting.append((journal.receive(effect.reading), effect.then))
            case RecordConnect():
                self._waiting.append((journal.begin_session(), effect.then))
            case ReadBacklog():
                self._reads = True
            case KeepRecord():
                journal.keep(effect.record)
            case Unqueue():
                journal.unqueue(effect.record)
            case FinishRun():
                journal.finish_run(effect.record, effect.count)
            case ReadAgain():
                self._again, self._again_failed_at = effect.records, None
            case _:
                assert_never(effect)

    async def stop(self) -> None:
        """Write what is pending, then close."""
        self._is_stopping = True
        while not self._is_idle.is_set() or self._begin():
            await self._is_idle.wait()
        if self._alarm is not None:
            self._alarm.cancel()
        await self._worker.run(self._journal.close)
        self._worker.stop()

    def check(self) -> str | None:
        """What is wrong, for health; None if nothing is."""
        state = self._journal.numbers.state
        match state:
            case JournalState.OK:
                return None
            case JournalState.DEGRADED:
                return f"a write to the journal failed, its readings are safe: {self._problem}"
            case JournalState.FULL:
                return "the journal is full: " + (
                    self._problem or "all of journal.size_max is used"
                )
            case JournalState.FAILED:
                return f"nothing can be written to the journal: {self._problem}"
            case _:
                assert_never(state)

    @property
    def unstored(self) -> int:
        """Readings that are not on the disk."""
        return self._journal.unstored

    @property
    def under_way_s(self) -> float:
        """For how long the thread has had its job; 0 without one."""
        return 0.0 if self._is_idle.is_set() else self._loop.time() - self._begun_at

    def mark(self) -> int | None:
        """Of the job that is under way or due, for liveness; None without any. A look at the files
        is no progress for what is due.
        """
        if not self._is_idle.is_set():
            return self._jobs
        is_due = self._journal.is_urgent or self._waiting or self._reads or self._again
        return self._looks - self._jobs - 1 if is_due else None

    def waits_for_disk(self) -> bool:
        """Whether what waits here does so for the disk, which is slow, full or refuses."""
        if self._is_refused or self._is_unreadable:
            return True
        if self._journal.state in (JournalState.FAILED, JournalState.FULL):
            return True
        return max(self._took_s, self._worker.busy_s()) >= SLOW_S

    @property
    def numbers(self) -> JournalNumbers:
        return self._journal.numbers

    # When

    def _schedule(self) -> None:
        journal = self._journal
        now = self._loop.time()
        may_read = self._may_read(now)
        if journal.is_urgent or self._waiting or may_read:
            is_enough = journal.awaited >= max(GROUP_MIN, self._last_group)
            delay = 0.0 if is_enough or may_read else self._linger_s
        else:
            delay = self._idle_s()
        self._set_alarm(now + delay)

    def _idle_s(self) -> float:
        if self._journal.has_pending:
            return BEAT_S
        times = [self._look_at, self._read_at if self._reads else inf]
        times.append(self._again_at if self._again else inf)
        wake_at = self._journal.wake_at()
        if wake_at is not None:
            times.append(wake_at)
        return max(min(times) - self._loop.time(), IDLE_S_MIN)

    def _set_alarm(self, at: float) -> None:
        if self._alarm is not None:
            if self._alarm_at <= at:
                return
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if self._is_idle.is_set():
            self._begin()

    # Jobs

    def _begin(self) -> bool:
        """Start a job, if there is one: groups and looks at the backlog take turns."""
        now = self._loop.time()
        journal = self._journal
        reads = not self._is_stopping and self._may_read(now)
        is_beat = self._is_stopping or now - self._group_at >= BEAT_S
        wants_group = journal.is_urgent or bool(self._waiting) or is_beat
        look_at = self._look_at + (LOOK_PATIENCE_S if journal.is_urgent else 0.0)
        if now >= look_at and not self._is_stopping:
            self._begin_look(now)
            return True
        if reads and (not wants_group or self._was_group) and self._begin_read(now):
            return True
        group = journal.begin_group(now, is_stopping=self._is_stopping)
        if group is not None:
            self._group_at = now
            self._was_group = True
            self._start(journal.write, group, partial(self._end_group, group))
            return True
        self._tell_durable()
        if not self._is_idle.is_set() or (reads and self._may_read(now) and self._begin_read(now)):
            return True
        if not self._is_stopping:
            self._set_alarm(now + self._idle_s())
        return False

    def _may_read(self, now: float) -> bool:
        return (self._reads and now >= self._read_at) or bool(self._again and now >= self._again_at)

    def _begin_read(self, now: float) -> bool:
        if self._again and now >= self._again_at:
            again = self._journal.begin_again(self._again, now)
            self._was_group = False
            self._start(self._journal.read, again, partial(self._end_again, again))
            return True
        request = self._journal.begin_read(now)
        if request is None:
            self._reads = False
            self._loop.call_soon(self._callbacks.backlog, [])
            return False
        self._was_group = False
        self._start(self._journal.read, request, partial(self._end_read, request))
        return True

    def _start(
        self, work: Callable[[T], R], job: T, end: Callable[[asyncio.Future[R]], None]
    ) -> None:
        future = self._worker.run(work, job)
        self._jobs += 1
        self._begun_at = self._loop.time()
        self._is_idle.clear()
        future.add_done_callback(end)

    def _ended(self, future: asyncio.Future[R]) -> OSError | None:
        """A job: what the disk had against it."""
        error = _os_error(future)
        self._took_s = self._loop.time() - self._begun_at
        self._is_refused = error is not None
        return error

    def _end_group(self, group: CommitGroup, future: asyncio.Future[None]) -> None:
        error = self._ended(future)
        outcome = self._journal.end_group(group, error)
        self._is_idle.set()
        self._note(error or group.room_error)
        callbacks = self._callbacks
        self._last_group = len(group.readings) + group.awaited or self._last_group
        if outcome.stored:
            callbacks.stored(outcome.stored)
        if outcome.indeterminate:
            callbacks.indeterminate(outcome.indeterminate, outcome.reason)
        if outcome.not_stored:
            callbacks.not_stored(outcome.not_stored, outcome.reason)
        if outcome.dropped:
            callbacks.dropped_oldest(outcome.dropped)
        self._tell_durable()
        self._go_on()

    def _end_read(self, request: BacklogRequest, future: asyncio.Future[list[Reading]]) -> None:
        self._ended(future)
        self._is_unreadable = request.failed is not None
        self._is_idle.set()
        lost = self._journal.lost
        readings = self._journal.end_read(request, future.result())
        if self._journal.lost > lost:
            self._callbacks.lost(self._journal.lost - lost, ", ".join(self._journal.lost_in))
        if request.failed is not None:
            self._read_at = self._loop.time() + RETRY_READ_S
        if request.failed is not None or self._problem_told:
            self._tell_out_of_reach()
        if readings:
            self._reads = False
            self._callbacks.backlog(readings)
        self._go_on()

    def _end_again(self, request: BacklogRequest, future: asyncio.Future[list[Reading]]) -> None:
        """What cannot be opened for long counts as what cannot be read."""
        self._ended(future)
        self._is_unreadable = request.failed is not None
        self._is_idle.set()
        now, readings = self._loop.time(), future.result()
        if request.failed is None or readings:
            is_over = True
        else:
            self._again_at = now + RETRY_READ_S
            if self._again_failed_at is None:
                self._again_failed_at = now
            is_over = now - self._again_failed_at >= UNREADABLE_S
        if is_over:
            self._again = ()
            self._callbacks.read_again(self._journal.end_again(readings))
        self._go_on()

    def _begin_look(self, now: float) -> None:
        self._look_at = now + self._look_s
        self._looks += 1
        look = self._journal.begin_look()
        self._start(self._journal.look, look, partial(self._end_look, look))

    def _end_look(self, look: PathCheck, future: asyncio.Future[None]) -> None:
        self._ended(future)
        self._is_idle.set()
        back = self._journal.end_look(look, self._loop.time())
        self._note(look.error)
        self._tell_out_of_reach()
        if back:
            self._callbacks.in_reach_again(back)
        if self._is_idle.is_set():
            self._begin()  # what else is due, before another look can be

    def _go_on(self) -> None:
        """What came meanwhile has waited long enough."""
        if not self._is_idle.is_set():
            return
        if self._journal.needs_room or self._may_read(self._loop.time()):
            self._begin()
        elif self._journal.is_urgent:
            self._set_alarm(self._loop.time())  # what has come to the sockets by now joins as well
        else:
            self._schedule()

    # Answers

    def _tell_durable(self) -> None:
        durable, effects = self._journal.durable_mark, []
        while self._waiting and self._waiting[0][0] <= durable:
            effects.append(self._waiting.popleft()[1])
        if effects:
            self._callbacks.durable(effects)

    def _refuse(self, reading: Reading, reason: Reason) -> None:
        if not self._refused:
            self._loop.call_soon(self._tell_refused)
        self._refused.setdefault(reason, []).append(reading)
        self._note(None)

    def _tell_refused(self) -> None:
        refused, self._refused = self._refused, {}
        for reason, readings in refused.items():
            self._callbacks.not_stored(readings, reason)

    def _tell_out_of_reach(self) -> None:
        """Once for each change of the reason."""
        numbers = self._journal.numbers
        if numbers.backlog_problem != self._problem_told:
            self._problem_told = numbers.backlog_problem
            self._callbacks.out_of_reach(numbers.out_of_reach, numbers.backlog_problem)

    def _note(self, error: OSError | None) -> None:
        """Say once what became of the journal."""
        if error is not None:
            self._problem = brief(error)
        state = self._journal.state
        if state is not self._state:
            self._state = state
            if state is JournalState.OK:
                self._problem = ""
            self._callbacks.state_changed(state, self._problem)


def _os_error(future: asyncio.Future[R]) -> OSError | None:
    error = future.exception()
    if error is None or isinstance(error, OSError):
        return error
    raise error
