"""The state store beside the event loop: changes in, one transaction after the other in a thread.

When a transaction fails (the disk is full, or fails) all that it held waits and is tried again
every `RETRY_S`. Frames to sensors that waited are let go at the first failure: serving goes on from
memory, and a power cut before the disk is well again costs a registration or a subscription that
the sensor makes anew, never a reading. What hands something back to the broker, or needs to be
exactly once, goes on waiting.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf

from gateway.effects import Effect, Send, Urgency
from gateway.saved import Change
from gateway.state.pending import Batch, Pending
from gateway.state.store import StateStore

log = logging.getLogger("tidegate.state")

RETRY_S = 1.0


class StateCommitter:
    def __init__(
        self,
        store: StateStore,
        loop: asyncio.AbstractEventLoop,
        on_durable: Callable[[list[Effect]], None],
    ) -> None:
        self.commits = 0
        self.failures = 0
        self._store = store
        self._loop = loop
        self._on_durable = on_durable
        self._pending = Pending()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state")
        self._job: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = inf
        self._problem: str | None = None

    # From the shell

    def save(self, change: Change) -> None:
        self._pending.add(change, self._loop.time())
        self._schedule()

    def when_saved(self, effects: list[Effect], urgency: Urgency) -> None:
        self._pending.wait(effects, urgency, self._loop.time())
        self._schedule()

    # From the daemon

    async def flush(self) -> None:
        """Write what is pending now, and let go what waits for it."""
        if self._job is not None:
            await asyncio.wait([self._job])
            await asyncio.sleep(0)  # until its end was heard
        if self._job is None:
            self._cancel_alarm()
            self._begin()
        if self._job is not None:
            await asyncio.wait([self._job])
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """Write what is pending, as far as that can be done, and close."""
        self._cancel_alarm()
        if self._job is not None:
            await asyncio.wait([self._job])
            await asyncio.sleep(0)  # until its end was heard
            self._cancel_alarm()
        batch = self._pending.take()
        if batch is not None:
            try:
                await self._loop.run_in_executor(self._thread, self._store.commit, batch.changes)
            except sqlite3.Error as error:
                log.error(
                    "%d changes of sessions could not be saved: %s", len(batch.changes), error
                )
        await self._loop.run_in_executor(self._thread, self._store.close)
        self._thread.shutdown()

    @property
    def problem(self) -> str | None:
        """Why nothing can be saved just now; None when all is well."""
        return self._problem

    @property
    def pending_rows(self) -> int:
        return len(self._pending)

    # When

    def _schedule(self) -> None:
        if self._job is not None or self._pending.due_at >= self._alarm_at:
            return
        self._cancel_alarm()
        self._alarm_at = self._pending.due_at
        self._alarm = self._loop.call_at(self._alarm_at, self._begin)

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = None, inf

    # One transaction after the other

    def _begin(self) -> None:
        self._alarm, self._alarm_at = None, inf
        batch = self._pending.take()
        if batch is None:
            return
        self._job = self._loop.run_in_executor(self._thread, self._store.commit, batch.changes)
        self._job.add_done_callback(partial(self._end, batch))

    def _end(self, batch: Batch, job: asyncio.Future[None]) -> None:
        self._job = None
        error = job.exception()
        if error is None:
            self._succeeded()
            waiting = batch.waiting
        elif isinstance(error, sqlite3.Error):
            waiting = self._failed(batch, error)
        else:
            raise error
        if waiting:
            self._on_durable(waiting)
        self._schedule()

    def _succeeded(self) -> None:
        self.commits += 1
        if self._problem is not None:
            self._problem = None
            log.info("sessions are saved again")

    def _failed(self, batch: Batch, error: sqlite3.Error) -> list[Effect]:
        """Returns what need not wait."""
        self.failures += 1
        sends = [effect for effect in batch.waiting if type(effect) is Send]
        batch.waiting = [effect for effect in batch.waiting if type(effect) is not Send]
        self._pending.failed(batch, self._loop.time() + RETRY_S)
        if self._problem is None:
            log.error(
                "sessions cannot be saved (%s): make room on the disk of gateway.state_dir, or see "
                "`tidegate doctor --disk`; serving goes on, and it is tried again every second",
                error,
            )
        self._problem = str(error)
        return list(sends)
