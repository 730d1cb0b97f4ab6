"""Saves from the loop, by a thread of its own: at most one commit is under way.

While the disk refuses, everything stays pending, is tried again every `RETRY_S`, and is written in
parts that begin small: on a full disk what makes room can be written although the rest cannot.

The gateway goes on serving from memory meanwhile, and while a commit hangs (`SLOW_S`): CONNACK and
REGACK no longer wait. What a power cut would cost then is a session or a registration, and its
sensor is told so and makes it again; never a reading, which is in the journal. What a sensor could
not notice goes on waiting: SUBACK of a subscription that a restart would forget (the core refuses
it in the end), or the retained messages for it, and what QoS 2 sends to it, which a restart would
send twice. So does what hands something back to the broker, which would forget what only our memory
has.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from time import perf_counter

from gateway.core.effects import ConnectSaved, Durable, HeldFrames
from gateway.core.process_pauses import LATE_S
from gateway.core.state_records import Change, StateRecords
from gateway.frames import Frame, Publish, Pubrel, Suback
from gateway.storage.state.errors import StateError
from gateway.storage.state.pending import Batch, Pending
from gateway.storage.state.store import StateStore
from gateway.storage.worker import Jobs, WorkThread

log = logging.getLogger("tidegate.state")

RETRY_S = 1.0
# What the log's room on a full disk is enough for, in all likelihood; see room.py. It doubles
# with each part that is written.
PART_CHANGES = 32
# After which a commit that has not ended is a trouble of its own: a card that hangs. Less than the
# ten seconds after which a sensor repeats what was not answered.
SLOW_S = 5.0
# A commit that takes longer is the disk's doing.
DISK_SLOW_S = 3.0


@dataclass(slots=True)
class StateNumbers:
    """For metrics and health. `pending`: changes that are not durable yet."""

    commits: int = 0
    rows: int = 0
    failures: int = 0
    last_commit_s: float = 0.0
    worst_commit_s: float = 0.0
    pending: int = 0
    waiting: int = 0
    is_degraded: bool = False


def say(level: int, sentence: str) -> None:
    log.log(level, "%s", sentence)


class StateCommitter:
    """`on_durable` gets the effects that waited, in order, in a turn of the loop of their own."""

    def __init__(
        self,
        *,
        store: StateStore,
        saved: StateRecords | None,
        loop: asyncio.AbstractEventLoop,
        on_durable: Callable[[list[Durable]], None],
        tell: Callable[[int, str], None] = say,
        thread: Jobs | None = None,
        trouble: StateError | None = None,
    ) -> None:
        """`trouble`: with the disk, from the start."""
        self._store = store
        self._loop = loop
        self._on_durable = on_durable
        self._tell = tell
        self._pending = Pending(saved)
        self._numbers = StateNumbers()
        self._worker = thread or WorkThread(loop, "state")
        self._flight: asyncio.Future[float] | None = None
        self._batch = Batch([], [])  # what is under way
        self._begun_at = 0.0
        self._turns = 0  # batches begun, and ended
        self._took_s = 0.0  # the last one that has ended
        self._patience: asyncio.TimerHandle | None = None  # with the commit under way
        self._may_extend = True  # once for each commit
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = inf
        self._trouble: StateError | None = None
        self._trouble_since = 0.0
        self._retry_at = -inf
        self._part: int | None = None  # changes in a batch; None: all
        self._is_stopping = False
        self._is_unopened = trouble is not None
        if trouble is not None:
            self._retry_at = loop.time() + RETRY_S
            self._begin_trouble(trouble)
            self._set_alarm()

    # From the shell

    def save(self, change: Change) -> None:
        self._pending.add(change, self._loop.time())
        self._set_alarm()

    def when_saved(self, effects: list[Durable]) -> None:
        if self._trouble is not None:
            self._hand_over([effect for effect in effects if _may_go(effect)])
            effects = [effect for effect in effects if not _may_go(effect)]
        if effects:
            self._pending.wait(effects, self._loop.time())
            self._set_alarm()

    # From the daemon

    async def flush(self) -> None:
        """Write what is pending now, as far as the disk takes it, and hand over what waited."""
        await self._landed()
        if self._flight is None:
            self._ring()
        await self._landed()
        await asyncio.sleep(0)  # until it was handed over

    async def stop(self) -> None:
        """Write what is pending, hand over what waited for it, and close the database.

        A second time does nothing.
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        if self._alarm is not None:
            self._alarm.cancel()
        await self._landed()
        await self._save_the_rest()
        await self._worker.run(self._store.close)
        self._worker.stop()

    async def _landed(self) -> None:
        while self._flight is not None:
            await asyncio.wait([self._flight])
            await asyncio.sleep(0)

    def mark(self) -> int | None:
        """Of the commit that is under way or due, for liveness; None without any."""
        is_due = self._flight is not None or self._pending.due_at < inf
        return self._turns if is_due else None

    def waits_for_disk(self) -> bool:
        """Whether what waits here does so for the disk, which is slow or refuses."""
        if self._trouble is not None:
            return True
        took_s = max(self._took_s, self._worker.busy_s())
        return self.mark() is not None and took_s >= DISK_SLOW_S

    @property
    def under_way_s(self) -> float:
        """For how long the thread has had its commit; 0 without one."""
        return 0.0 if self._flight is None else self._loop.time() - self._begun_at

    def check(self) -> str | None:
        """For health: what is wrong, or None."""
        if self.under_way_s >= SLOW_S:
            return _hanging_for(self.under_way_s)
        return None if self._trouble is None else self._trouble.strerror

    @property
    def numbers(self) -> StateNumbers:
        numbers = self._numbers
        numbers.pending = len(self._pending) + len(self._batch.changes)
        numbers.waiting = self._pending.waiting + len(self._batch.waiting)
        numbers.is_degraded = self._trouble is not None
        return numbers

    # Time

    def _set_alarm(self) -> None:
        if self._flight is not None or self._is_stopping:
            return
        due_at = max(-inf if self._is_unopened else self._pending.due_at, self._retry_at)
        if due_at >= self._alarm_at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = due_at
        self._alarm = self._loop.call_later(max(0.0, due_at - self._loop.time()), self._ring)

    def _ring(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = None, inf
        self._turns += 1
        batch = self._pending.take(self._part)
        if batch is None and self._is_unopened:
            batch = self._pending.probe()
        if batch is None:
            return
        if not batch.changes and not self._is_unopened:
            self._hand_over(self._pending.committed(batch))
            return
        self._batch = batch
        self._begun_at = self._loop.time()
        self._flight = self._worker.run(self._write, batch.changes)
        self._may_extend = True
        self._patience = self._loop.call_later(SLOW_S, self._hang)
        self._flight.add_done_callback(self._land)

    # A commit

    def _write(self, changes: list[Change]) -> float:
        """In the thread; returns seconds."""
        begun = perf_counter()
        self._store.commit(changes)
        return perf_counter() - begun

    def _hang(self) -> None:
        """It takes very long: what need not wait for it is not held any longer. Where the timer
        rings late this process did not run, and the end of the commit may wait behind it.
        """
        if self.under_way_s > SLOW_S + LATE_S and self._may_extend:
            self._may_extend, self._begun_at = False, self._loop.time()
            self._patience = self._loop.call_later(SLOW_S, self._hang)
            return
        self._begin_trouble(StateError(errno.ETIMEDOUT, _hanging_for(self.under_way_s)))

    def _land(self, flight: asyncio.Future[float]) -> None:
        if self._patience is not None:
            self._patience.cancel()
        batch, self._batch = self._batch, Batch([], [])
        self._flight = None
        self._turns += 1
        self._took_s = self._loop.time() - self._begun_at
        error = flight.exception()
        if error is None:
            self._succeed(batch, flight.result())
        else:
            self._fail(batch, error)
        self._set_alarm()

    def _succeed(self, batch: Batch, seconds: float) -> None:
        numbers = self._numbers
        self._is_unopened = False
        numbers.commits += 1
        numbers.rows += len(batch.changes)
        numbers.last_commit_s = seconds
        numbers.worst_commit_s = max(seconds, numbers.worst_commit_s)
        if self._part is not None:
            self._part *= 2
        if batch.is_all and self._trouble is not None:
            down_s = self._loop.time() - self._trouble_since
            self._tell(logging.WARNING, f"state is saved again, after {down_s:.0f} s")
            self._trouble, self._part = None, None
        self._retry_at = -inf
        self._hand_over(self._pending.committed(batch))

    def _fail(self, batch: Batch, error: BaseException) -> None:
        self._numbers.failures += 1
        self._part = PART_CHANGES
        self._retry_at = self._loop.time() + RETRY_S
        self._pending.failed(batch)
        self._begin_trouble(_trouble_of(error))

    def _begin_trouble(self, trouble: StateError) -> None:
        is_first, self._trouble = self._trouble is None, trouble
        if is_first:
            self._trouble_since = self._loop.time()
            self._tell(
                logging.ERROR,
                f"state cannot be saved: {trouble.strerror}; a restart now would forget what "
                "sensors registered and subscribed meanwhile, but no reading that the journal has",
            )
            self._hand_over(self._pending.let_go(_may_go))

    def _hand_over(self, effects: list[Durable]) -> None:
        if effects:
            self._loop.call_soon(self._on_durable, effects)

    async def _save_the_rest(self) -> None:
        while (batch := self._pending.take(self._part)) is not None:
            try:
                if batch.changes:
                    await self._worker.run(self._write, batch.changes)
            except Exception as error:
                self._pending.failed(batch)
                if self._part is not None:
                    why = _trouble_of(error).strerror
                    lost = len(self._pending)
                    self._tell(logging.ERROR, f"{lost} changes of state were not saved: {why}")
                    return
                self._part = PART_CHANGES
            else:
                self._hand_over(self._pending.committed(batch))


def _trouble_of(error: BaseException) -> StateError:
    return error if isinstance(error, StateError) else StateError(errno.EIO, repr(error))


def _hanging_for(seconds: float) -> str:
    return f"the disk of gateway.state_dir has not taken a commit for {seconds:.0f} s"


def _may_go(effect: Durable) -> bool:
    """Without a record of it; see the top."""
    if type(effect) is ConnectSaved:
        # After a power cut the sensor is told to connect again; but nobody would know its will.
        return not effect.has_will
    if type(effect) is HeldFrames:
        return all(_frame_may_go(send.frame) for send in effect.sends)
    return False


def _frame_may_go(frame: Frame) -> bool:
    if type(frame) is Publish:
        return frame.qos < 2
    return type(frame) is not Pubrel and type(frame) is not Suback
