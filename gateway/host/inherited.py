"""What a process inherits from the process that started it, made fit before anything else happens.

- A standard stream that is closed: the next file or socket would get its number, and a stray line
  of text would go into it. `/dev/null` takes its place.
- A signal mask in which SIGTERM is blocked, so that the process could never be ended; and an
  ignored SIGCHLD, with which the exit code of every child is lost. SIGINT that is ignored stays so:
  a shell without job control does that for what it starts in the background.
- A locale whose encoding is not UTF-8: configuration files are UTF-8, so the name of a folder in
  one could not be opened, nor printed. The program is executed again in Python's UTF-8 mode.
"""

from __future__ import annotations

import os
import signal
import sys

_UNBLOCKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


def make_fit() -> None:
    """Once, at the start. May execute the program again."""
    _use_utf8()  # first: who is executed again finds closed streams closed
    _fill_standard_streams()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _UNBLOCKED)
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _fill_standard_streams() -> None:
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            taken = os.open(os.devnull, os.O_RDWR)  # the lowest that is free, which is this one
            os.set_inheritable(taken, True)


def _use_utf8() -> None:
    if sys.flags.utf8_mode or sys.getfilesystemencoding() == "utf-8" or not sys.executable:
        return
    environment = dict(os.environ)
    if sys.stdout is not None:  # what the terminal can show stays as it is
        environment.setdefault("PYTHONIOENCODING", f"{sys.stdout.encoding}:backslashreplace")
    arguments = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
    try:
        os.execve(sys.executable, arguments, environment)
    except OSError:  # a sandbox that lets nobody execute; names in ASCII are still fine
        return
