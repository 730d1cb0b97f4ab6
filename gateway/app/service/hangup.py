"""SIGHUP means two things: "reload" from a supervisor, "your terminal is gone" from the kernel.

Until there is a handler a supervisor's must do no harm, from the first line of this program on.
So this imports next to nothing. Before its first line, while Python itself starts, it would still
end the process: where SIGHUP may come so early, start it with `nohup`, whose disposition is kept.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress


class Terminal:
    """The one that this process was started from. It is opened once, so that to ask whether it is
    still there needs no file call.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        with suppress(OSError):  # there is none
            self._file = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)

    @property
    def was_there(self) -> bool:
        return self._file is not None

    @property
    def is_gone(self) -> bool:
        """It was there when this was made, and has hung up."""
        if self._file is None:
            return False
        try:
            os.tcgetpgrp(self._file)
        except OSError:
            return True
        return False

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def outlive_reload() -> None:
    """Until SIGHUP has a handler, a supervisor's does no harm."""
    terminal = Terminal()
    if not terminal.was_there:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    terminal.close()
