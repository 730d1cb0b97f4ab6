"""How the system shares its processors out between the gateway and its neighbours.

Where gateway and broker share a processor, each PUBACK would wake the gateway up, and the kernel
would let it displace the broker, which was about to write the next one: both then handle messages
one by one, with two switches for each. A `batch` process displaces nobody when it wakes up, so the
broker finishes what it has in hand and the gateway finds all of it at once. Where a processor is
free nothing changes, as nobody is displaced there.
"""

from __future__ import annotations

import contextlib
import os


def be_scheduled(wanted: str) -> None:
    """`gateway.scheduling`, for this process and all threads that it starts from now on.

    Whoever starts it under a policy of their own (`chrt`, a drop-in) has decided already. A system
    that does not know of policies (musl), or forbids it, schedules us as it does all others.
    """
    if wanted == "batch":
        with contextlib.suppress(OSError):
            if os.sched_getscheduler(0) == os.SCHED_OTHER:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
