"""From power on to the application: /main.py calls `start`, and nothing here can be updated.

What raises in the application is written to /crash.txt, and the board restarts; after DIED_MAX
times with a pause, so that a node that is broken for good does not empty its battery.
"""

import gc
import sys

import machine

from .files import Files
from .slots import DIED_MAX, Slots

CRASH_PATH = "/crash.txt"
PAUSE_MS = 60_000
PAUSES_MAX = 30
GARBAGE_SHARE = 16  # of the heap, before it is collected


def start() -> None:
    # What loading leaves lies between what stays: a heap that was full before it is collected has
    # no KiB in one piece any more.
    gc.threshold(gc.mem_free() // GARBAGE_SHARE)  # type: ignore[attr-defined]
    files = Files()
    slots = Slots(files)
    # RP2 has no such cause: there a deep sleep ends in a reset like any other.
    woken = getattr(machine, "DEEPSLEEP_RESET", -1)
    is_safe = slots.booted(machine.reset_cause() == woken)
    try:
        application = __import__(slots.name + ".app.start", None, None, ("run",))
        application.run(files, slots, is_safe)
    except Exception as error:  # of any kind: nobody is there to restart the board but us
        _note(files, error)
        if slots.died >= DIED_MAX:
            slots.count()  # because this sleep ends in a wake
            machine.deepsleep(PAUSE_MS * min(slots.died, PAUSES_MAX))
    machine.reset()


def _note(files: Files, error: Exception) -> None:
    """For debugging: the last one only."""
    sys.print_exception(error)  # type: ignore[attr-defined]
    try:
        with files.open(CRASH_PATH, "w") as file:
            sys.print_exception(error, file)  # type: ignore[attr-defined]
    except OSError:
        pass
