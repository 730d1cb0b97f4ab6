"""How this process stands with the system it runs on: what SIGHUP means to it, and how the
processors are shared out between it and its neighbours.

**SIGHUP** means two things: "reload" from a supervisor, "your terminal is gone" from the kernel.

**Scheduling.** Where gateway and broker share a processor, each PUBACK would wake the gateway up,
and the kernel would let it displace the broker, which was about to write the next one: both then
handle messages one by one, with two switches for each. A `batch` process displaces nobody when it
wakes up, so the broker finishes what it has in hand and the gateway finds all of it at once. Where
a processor is free nothing changes, as nobody is displaced there.
"""

from __future__ import annotations

import contextlib
import os
import signal


def has_terminal() -> bool:
    """Whether this process was started from a terminal that is still there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def outlive_reload() -> None:
    """Until somebody listens to SIGHUP, a supervisor's does no harm."""
    if not has_terminal():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def be_scheduled(wanted: str) -> None:
    """`gateway.scheduling`, for this process and all threads that it starts from now on.

    Whoever starts it under a policy of their own (`chrt`, a drop-in) has decided already. A system
    that does not know of policies (musl), or forbids it, schedules us as it does all others.
    """
    if wanted == "batch":
        with contextlib.suppress(OSError):
            if os.sched_getscheduler(0) == os.SCHED_OTHER:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
