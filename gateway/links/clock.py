"""The two clocks: monotonic seconds for every decision, wall time only for the stamps on readings.

The core is given `now()` and never asks. Wall time is monotonic time plus an offset which the
owner reads again once a second: a board without a battery clock starts in 1970 and jumps when NTP
answers.
"""

from __future__ import annotations

import time


def now() -> float:
    """Seconds on the scale of the event loop's own `time()`."""
    return time.monotonic()


def unix_ms_at_zero() -> int:
    """Add this to monotonic milliseconds for Unix milliseconds, as the wall clock is set now."""
    return (time.time_ns() - time.monotonic_ns()) // 1_000_000
