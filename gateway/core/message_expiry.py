"""When a message for a client is over: MQTT 5's Message Expiry Interval, or the operator's own.

What the broker names is the time that is left as the message comes. It runs by the clock of the
machine, so time in which this process stood still counts. The wall clock is not asked while the run
lasts that received the message: a board without a battery clock starts in 1970 and jumps when NTP
answers.

After a restart the monotonic clock is another one, so two others go on:
- The wall clock, if it was set when the message came and is set now, also when it is set later.
- The run time: how long the gateway has run, in all its runs. It is written now and then, but only
  while something waits that the wall clock cannot tell the age of.
The message is over by whichever says so first, and never has more time than it had. So where no
clock is set it errs to the longer: what a restart took does not count, nor what ran after the run
time was written last, `SAVE_RUN_TIME_S` or half of that run. To drop a message that is not over is
the worse: the broker has the acknowledgement for it, and does not send it again. But the run time
only grows, so no message lives for ever.

Other designs lost: the boot id, as in the journal, tells only restarts of the process from those of
the board, after which a message on a board without a clock began again with its full time.

Limit: a suspended machine stops its monotonic clock; that time counts after a restart alone.
"""

from __future__ import annotations

from math import inf

from gateway.core.process_pauses import ProcessPauses
from gateway.core.state_records import ExpiryRecord, RunTimeRecord

# No board of this gateway was switched on before 2024: an earlier wall clock is not set.
CLOCK_IS_SET_MS = 1_704_067_200_000
SAVE_RUN_TIME_S = 60.0
SAVE_FIRST_S = 1.0  # then when a run has become twice as long


class ExpiryClock:
    """`is_used`: a message had a time. `due_at`: when the run time is to be saved, in core time."""

    __slots__ = (
        "_began_at", "_named_until", "_pauses", "_run_ms_at_zero", "_seen_at", "_unix_ms_at_zero",
        "_unnamed_until", "due_at", "is_used",
    )  # fmt: skip

    def __init__(self, pauses: ProcessPauses) -> None:
        self.is_used = False
        self.due_at = inf
        self._pauses = pauses
        self._unix_ms_at_zero = 0.0
        self._run_ms_at_zero = 0.0
        self._began_at = 0.0  # this run, in the time of the core
        self._seen_at = 0.0
        # Until when something is saved of which the wall clock is not known, and of which it is.
        self._unnamed_until = -inf
        self._named_until = -inf

    # From the engine

    def set_wall_clock(self, unix_ms_at_zero: float) -> bool:
        """Whether it was set by a second or more."""
        step_ms = unix_ms_at_zero - self._unix_ms_at_zero
        self._unix_ms_at_zero = unix_ms_at_zero
        return abs(step_ms) >= 1000

    def go_on_from(self, run_ms: int, now: float) -> None:
        """So long former runs took, as far as is known."""
        self._run_ms_at_zero = run_ms - self._machine_ms(now)
        self._began_at = self._seen_at = now

    def paused(self) -> None:
        """What ran until now may be long: it is saved at once, if it is needed."""
        if self.due_at < inf:
            self.due_at = self._seen_at

    # A message

    def begin(self, left_s: float, now: float) -> Expiry:
        """It comes now, with so much time left."""
        self.is_used = True
        self._seen_at = now
        machine_ms = self._machine_ms(now)
        unix_ms = machine_ms + self._unix_ms_at_zero
        record = ExpiryRecord(
            left_ms=round(left_s * 1000),
            run_ms=max(0, int(machine_ms + self._run_ms_at_zero)),
            unix_ms=int(unix_ms) if unix_ms >= CLOCK_IS_SET_MS else 0,
        )
        return Expiry(self, record, machine_ms / 1000 + left_s, inf)

    def restored(self, record: ExpiryRecord, now: float) -> Expiry:
        """It came in a former run."""
        self.is_used = True
        machine_ms = self._machine_ms(now)
        passed_ms = max(0.0, machine_ms + self._run_ms_at_zero - record.run_ms)
        until_unix_ms = float(record.unix_ms + record.left_ms) if record.unix_ms else inf
        over_at = (machine_ms + record.left_ms - passed_ms) / 1000
        expiry = Expiry(self, record, over_at, until_unix_ms)
        self._seen_at = now
        self.note_saved(expiry)
        return expiry

    def is_over(self, machine_over_at: float, until_unix_ms: float, now: float) -> bool:
        machine_at = self._pauses.machine_time(now)
        unix_ms = machine_at * 1000 + self._unix_ms_at_zero
        return machine_at >= machine_over_at or unix_ms >= until_unix_ms

    def core_time(self, machine_over_at: float, until_unix_ms: float) -> float:
        """When it is over, as far as is known now."""
        by_wall_clock = (until_unix_ms - self._unix_ms_at_zero) / 1000
        return self._pauses.core_time(min(machine_over_at, by_wall_clock))

    # The run time

    def note_saved(self, expiry: Expiry) -> None:
        """It outlasts this run."""
        if not expiry.record.unix_ms:
            self._unnamed_until = max(self._unnamed_until, expiry.machine_over_at)
        elif expiry.until_unix_ms < inf:  # of a former run; what came in this one has the clock
            self._named_until = max(self._named_until, expiry.machine_over_at)
        else:
            return
        if self.due_at == inf:
            self._wait_from(self._seen_at)

    def handle_time(self, now: float) -> RunTimeRecord | None:
        if now < self.due_at:
            return None
        machine_ms = self._machine_ms(now)
        is_set = machine_ms + self._unix_ms_at_zero >= CLOCK_IS_SET_MS
        until = self._unnamed_until if is_set else max(self._unnamed_until, self._named_until)
        if machine_ms / 1000 < until:
            self._wait_from(now)
        else:  # a last time, or after a restart it would not be over
            self.due_at = inf
        if until == -inf:
            return None  # the wall clock was set meanwhile
        return RunTimeRecord(int(machine_ms + self._run_ms_at_zero))

    def _wait_from(self, now: float) -> None:
        self.due_at = now + min(SAVE_RUN_TIME_S, max(SAVE_FIRST_S, now - self._began_at))

    def _machine_ms(self, now: float) -> float:
        return self._pauses.machine_time(now) * 1000


class Expiry:
    """Of one message, shared by its copies. `until_unix_ms`: of one that came in a former run, by
    the wall clock; infinity where that does not count.
    """

    __slots__ = ("_clock", "machine_over_at", "record", "until_unix_ms")

    def __init__(
        self, clock: ExpiryClock, record: ExpiryRecord, machine_over_at: float, until_unix_ms: float
    ) -> None:
        self.record = record
        self.machine_over_at = machine_over_at
        self.until_unix_ms = until_unix_ms
        self._clock = clock

    def is_over(self, now: float) -> bool:
        return self._clock.is_over(self.machine_over_at, self.until_unix_ms, now)

    def over_at(self) -> float:
        """When it is over, in the time of the core and as far as is known now."""
        return self._clock.core_time(self.machine_over_at, self.until_unix_ms)

    def saved(self) -> ExpiryRecord:
        """What is saved of it with its message."""
        self._clock.note_saved(self)
        return self.record


def is_over(expiry: Expiry | None, now: float) -> bool:
    """Most messages have none."""
    return expiry is not None and expiry.is_over(now)


def saved(expiry: Expiry | None) -> ExpiryRecord | None:
    return None if expiry is None else expiry.saved()
