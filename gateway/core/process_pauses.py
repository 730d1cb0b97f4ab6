"""Time in which this process did not run, and the clock of the core, which leaves it out.

A process stands still when it is stopped (SIGSTOP, a paused container), when the machine is
suspended or has no processor for it, or when something blocks its loop. Sensors go on meanwhile:
what they send waits in the sockets, or is lost there. So that time must not count as their silence,
nor as time in which they did not answer.

The clock of the core is the monotonic clock of the machine less all pauses. Every timer of the
core is extended by that, without a look at any session. Other designs lost: to add the time to each
deadline is a walk over 100,000 sessions and a list of timers that is never complete; to read the
sockets first does not help where they were full, or where the network was off as well.

The loop promises by `beat` to be back within `BEAT_S`; what it is late by more than `LATE_S` is
left out. The one that asks for the time first finds that out, so it makes no difference whether a
loop runs its timers first after a pause (uvloop) or reads its sockets first (asyncio).

What that clock is not for:
- Time stamps, and whatever outlasts this process, are in the time of the machine: `machine_time`.
- A clock that is extended only moves a client's deadline to where it was. Its last message may have
  been lost in the full socket, so a client has its full time again (`SessionLifecycle.deadline`).

Failure cases:
- Each beat counts, however late it comes: a process that is stopped again and again has timers that
  take longer, but they end. Late by half a second at each beat they take half as long again.
- It stands still often: a client has its full time again each time, but never more than twice its
  time in all, so who is gone is lost.
- A callback blocks for long: a pause like any other, nobody was received meanwhile.
- Less than `LATE_S` is what a loop with work to do is late; the tolerances of MQTT-SN cover it.
- Before the first `beat` and after `rest` nothing is left out: a start that takes long has no
  clients yet.
- A suspended machine has stopped its monotonic clock too: nothing has to be left out, but the rest
  is the same. It is seen by a clock that goes on; where there is none, nothing runs out either.

Limit: of the last `KNOWN_MAX` it is known when they were; a time before those is taken to be later
than it was, by what they took.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

BEAT_S = 1.0
LATE_S = 0.25
KNOWN_MAX = 64


@dataclass(frozen=True, slots=True)
class _Pause:
    """When it was over, in the time of the core and of the machine, and all left out until then."""

    core_at: float
    machine_at: float
    left_out_s: float


class ProcessPauses:
    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0  # all of them took so long, suspended machines included
        self.left_out_s = 0.0  # by the clock of the core
        self.overdue_at = inf  # in the time of the machine; a loop that is back later stood still
        self.since = -inf  # the time of the core from which on `left_out_s` holds
        self.suspended_s = 0.0  # the machine, since it was booted
        self.suspended_in_run_s = 0.0  # and since this process is there
        self._known: list[_Pause] = []  # the newest last
        self._before_s = 0.0  # what was left out before those
        self._suspended_before_s: float | None = None

    # From the clock

    def beat(self, machine_at: float) -> None:
        """The loop runs, and is back here within `BEAT_S`."""
        self.now(machine_at)
        self.overdue_at = machine_at + BEAT_S + LATE_S

    def rest(self) -> None:
        """It promises nothing any more."""
        self.overdue_at = inf

    def now(self, machine_at: float) -> float:
        """The time of the core."""
        if machine_at > self.overdue_at:
            self._note(machine_at - (self.overdue_at - LATE_S), machine_at)
            self.overdue_at = machine_at + BEAT_S + LATE_S
        return machine_at - self.left_out_s

    def suspended(self, seconds: float) -> None:
        """The machine was suspended for so long since it was booted."""
        if self._suspended_before_s is None:
            self._suspended_before_s = self.suspended_s = seconds
        elif seconds - self.suspended_s > LATE_S:
            self.count += 1
            self.seconds += seconds - self.suspended_s
            self.suspended_s = seconds
            self.suspended_in_run_s = seconds - self._suspended_before_s

    def _note(self, seconds: float, machine_at: float) -> None:
        self.count += 1
        self.seconds += seconds
        self.left_out_s += seconds
        self.since = machine_at - self.left_out_s
        self._known.append(_Pause(self.since, machine_at, self.left_out_s))
        if len(self._known) > KNOWN_MAX:
            self._before_s = self._known.pop(0).left_out_s

    # From one clock to the other

    def machine_time(self, core_at: float) -> float:
        """What the monotonic clock of the machine was at a time of the core."""
        if core_at >= self.since:  # nearly always
            return core_at + self.left_out_s
        before = [each.left_out_s for each in self._known if each.core_at <= core_at]
        return core_at + (before[-1] if before else self._before_s)

    def core_time(self, machine_at: float) -> float:
        """The time of the core then; a pause is one moment of it."""
        left_out_s, latest = self._before_s, inf
        for each in self._known:
            if machine_at < each.machine_at:
                latest = each.core_at
                break
            left_out_s = each.left_out_s
        return min(machine_at - left_out_s, latest)
