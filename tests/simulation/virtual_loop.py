"""What a committer needs of an event loop and its thread, in virtual time.

A job takes as long as the disk is slow. What it does to the disk it does at its end; when the
gateway dies before, it has got as far as the dice say, with `cut_short` in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.agenda import Agenda
from tests.simulation.late_loop import LateLoop

HUNG_S = 1.0  # between two looks whether calls return again


class Handle:
    """An action that can be cancelled."""

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Job:
    """Work under way in a thread, and the future that its starter holds."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self._heard_by: list[Callable[[Any], None]] = []
        self._result: Any = None
        self._error: Exception | None = None

    def add_done_callback(self, hear: Callable[[Any], None]) -> None:
        self._heard_by.append(hear)

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def finish(self) -> None:
        try:
            self._result = self.work()
        except Exception as error:  # as a future does
            self._error = error
        for hear in self._heard_by:
            hear(self)


class VirtualLoop:
    """The loop and the thread in one."""

    def __init__(
        self,
        agenda: Agenda,
        job_s: Callable[[], float],
        late: LateLoop | None = None,
        hung_until: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`late`: what handles all of it late, at times. `hung_until`: no job ends before that, as
        calls to files do not return.
        """
        self.is_on = True
        self._late = late or LateLoop(agenda)
        self._hung_until = hung_until
        self.job: Job | None = None  # a committer has one at a time
        self._agenda = agenda
        self._job_s = job_s
        self._begun_at = 0.0  # the job

    def time(self) -> float:
        return self._late.machine_now()

    def call_at(self, at: float, action: Callable[..., None], *arguments: Any) -> Handle:
        handle = Handle()
        self._late.at_machine(at, self._call, handle, action, arguments)
        return handle

    def call_later(self, delay: float, action: Callable[..., None], *arguments: Any) -> Handle:
        return self.call_at(self._late.machine_now() + delay, action, *arguments)

    def call_soon(self, action: Callable[..., None], *arguments: Any) -> Handle:
        return self.call_at(self._late.machine_now(), action, *arguments)

    def _call(
        self, handle: Handle, action: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        if self.is_on and not handle.is_cancelled:
            action(*arguments)

    def run(self, work: Callable[..., Any], *given: Any) -> Job:
        assert self.job is None, "one job at a time"
        job = self.job = Job(lambda: work(*given))
        self._begun_at = self._agenda.now
        self._agenda.after(self._job_s(), self._late.arrive, self._end, job)
        return job

    def busy_s(self) -> float:
        return 0.0 if self.job is None else self._agenda.now - self._begun_at

    def _end(self, job: Job) -> None:
        if not self.is_on:
            return
        if self._agenda.now < self._hung_until():
            self._agenda.after(HUNG_S, self._late.arrive, self._end, job)
            return
        self.job = None
        job.finish()
