"""The clocks: monotonic seconds for every decision, wall time only for the stamps on readings.

The core is given `now()` and reads no clock. `now()` leaves out the time in which the process stood
still (process_pauses.py has the rules and the failure cases); the machine's own monotonic time is
for whatever the event loop, another thread or another run of the gateway compares it with.

Wall time is monotonic time of the machine plus an offset which the owner reads again once a second:
a board without a battery clock starts in 1970 and jumps when NTP answers.

CLOCK_MONOTONIC, which `now()` and the loop count by, stops while the machine is suspended;
CLOCK_BOOTTIME does not, and `look` compares them.
"""

from __future__ import annotations

import time
from math import inf
from time import monotonic

from gateway.core.process_pauses import ProcessPauses

# Of this process: it has one loop.
pauses = ProcessPauses()
# Copies of its values: a call of `pauses` would cost more than the clock itself.
_overdue_at = inf
_left_out_s = 0.0

_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # Linux alone has it


def now() -> float:
    """Monotonic seconds in which this process ran."""
    at = monotonic()
    if at > _overdue_at:
        pauses.now(at)
        _copy_pauses()
    return at - _left_out_s


def machine_now() -> float:
    """Seconds on the scale of the event loop's own `time()`, and of the journal's files."""
    return monotonic()


def unix_ms_at_zero() -> int:
    """Add this to milliseconds of the machine's monotonic clock for Unix milliseconds, as the wall
    clock is set now.
    """
    return (time.time_ns() - time.monotonic_ns()) // 1_000_000


# From the owner of the loop


def beat() -> None:
    """The loop runs, and is back here within `BEAT_S`."""
    look()
    pauses.beat(monotonic())
    _copy_pauses()


def rest() -> None:
    """The loop has ended: no beat is expected any more."""
    pauses.rest()
    _copy_pauses()


def look() -> int:
    """How many pauses there were so far, those of the machine included."""
    now()
    if _BOOTTIME is not None:
        pauses.suspended(time.clock_gettime(_BOOTTIME) - monotonic())
    return pauses.count


def _copy_pauses() -> None:
    global _overdue_at, _left_out_s
    _overdue_at, _left_out_s = pauses.overdue_at, pauses.left_out_s
