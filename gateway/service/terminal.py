"""SIGHUP means two things: "reload" from a supervisor, "your terminal is gone" from the kernel."""

from __future__ import annotations

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
