"""The scheduling policy of this process beside others on the same processors.

Where gateway and broker share a processor, each PUBACK would wake the gateway up, and the kernel
would let it displace the broker, which was about to write the next one: both then handle messages
one by one, with two switches for each. A `batch` process displaces none when it wakes up, so the
broker finishes what it is doing and the gateway finds all of it at once. Where a processor is
free nothing changes, as no process is displaced there.

Beside programs that compute all the time a batch process waits for its turn each time, 9 ms on a
machine with two of them and two processors. So the gateway is one only while it is busy itself.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from math import inf
from pathlib import Path

# Of a processor, in a second: from which share on the gateway is busy, and below which it is not.
BUSY_FROM = 0.10
QUIET_BELOW = 0.05


class Scheduling:
    """`gateway.scheduling`: "auto", "batch" or "inherited".

    A policy that the process was started with (`chrt`, a drop-in) stays.
    A system that does not know of policies (musl), or forbids it, schedules us as all others.
    """

    def __init__(self, wanted: str) -> None:
        self._policy = _policy()
        may_change = self._policy == os.SCHED_OTHER
        self._adapts = wanted == "auto" and may_change
        self._cpu_s, self._at = 0.0, -inf
        if wanted == "batch" and may_change:
            self._set(os.SCHED_BATCH)

    def beat(self) -> None:
        """Each second: be a batch process while there is much to do."""
        if not self._adapts:
            return
        cpu_s, at = time.process_time(), time.monotonic()
        share = (cpu_s - self._cpu_s) / (at - self._at)
        self._cpu_s, self._at = cpu_s, at
        if share >= BUSY_FROM:
            self._change(os.SCHED_BATCH)
        elif share < QUIET_BELOW:
            self._change(os.SCHED_OTHER)

    def _change(self, policy: int) -> None:
        """For all threads that there are; those that they start inherit it.

        In a thread of its own, as no file is opened in that of the event loop.
        """
        if policy == self._policy:
            return
        self._policy = policy
        with contextlib.suppress(RuntimeError):  # the limit on threads is reached
            threading.Thread(target=self._set, args=(policy,), name="policy", daemon=True).start()

    def _set(self, policy: int) -> None:
        try:
            for thread in Path("/proc/self/task").iterdir():
                with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                    os.sched_setscheduler(int(thread.name), policy, os.sched_param(0))
        except OSError:
            self._adapts = False  # it is forbidden, and will be


def _policy() -> int | None:
    with contextlib.suppress(OSError):
        return os.sched_getscheduler(0)
    return None
