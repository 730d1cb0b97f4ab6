"""One examination in a process of its own, so that nothing it meets can stop the doctor.

A call on a disk or network file system that does not answer cannot be interrupted, and a thread in
one keeps its whole process from ending. So the examination is done by a child, which is left behind
if it has not answered in time; and a defect in one part is a finding of that part alone.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TypeVar, cast

from gateway.cli.doctor.syncs import sigterm_as_interrupt

T = TypeVar("T")

READ_BYTES = 1 << 16
# After Ctrl-C or SIGTERM a part removes what it has written.
END_S_MAX = 5.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NoAnswerInTimeError(Exception):
    """The child has not answered, and is left behind."""


class PartFailedError(Exception):
    """What the examination raised, in words."""


def apart(work: Callable[[], T], time_limit_s: float) -> T:
    """What `work` returns. Raises NoAnswerInTimeError, PartFailedError."""
    with sigterm_as_interrupt():
        pickled = _pickled(work, time_limit_s)
    try:
        result, error = pickle.loads(pickled)
    except Exception:
        raise PartFailedError("the examination ended without an answer") from None
    if error is not None:
        raise PartFailedError(error)
    return cast("T", result)


def _pickled(work: Callable[[], object], time_limit_s: float) -> bytes:
    sys.stdout.flush()
    reading, writing = os.pipe()
    # Python ignores what a handler raises within `fork`, and the child would be unknown to `_end`.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(work, writing, mask)
    os.close(writing)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        pickled = _read(reading, time.monotonic() + time_limit_s)
    except KeyboardInterrupt:
        _end(child)
        raise
    finally:
        os.close(reading)
    if pickled is None:
        os.kill(child, signal.SIGKILL)  # without waiting for it: it may be in the kernel
        raise NoAnswerInTimeError
    _reap(child)  # it has answered, but a thread of it may still be in the kernel
    return pickled


def _answer(work: Callable[[], object], writing: int, mask: Collection[int]) -> None:
    """In the child, which ends here."""
    _let_go_of_outputs()
    result, error = None, None
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        result = work()
    except KeyboardInterrupt:
        os._exit(1)
    except BaseException as raised:
        error = f"{type(raised).__name__}: {raised}"
    try:
        pickled = pickle.dumps((result, error))
    except Exception as raised:
        pickled = pickle.dumps((None, f"{type(raised).__name__}: {raised}"))
    with suppress(OSError), os.fdopen(writing, "wb") as file:
        file.write(pickled)
    os._exit(0)


def _let_go_of_outputs() -> None:
    """The one that reads them through a pipe would wait for a child that is left behind. A terminal
    stays, for the progress of a long measurement.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        if not os.isatty(number):
            os.dup2(nowhere, number)
    os.close(nowhere)


def _read(reading: int, deadline: float) -> bytes | None:
    """All that the child writes; None if it does not end in time."""
    pickled = b""
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        piece = os.read(reading, READ_BYTES)
        if not piece:
            return pickled
        pickled += piece


def _end(child: int) -> None:
    """It removes its files first, unless it hangs."""
    os.kill(child, signal.SIGTERM)
    if not _reap(child):
        os.kill(child, signal.SIGKILL)


def _reap(child: int) -> bool:
    """Whether it has ended within END_S_MAX."""
    deadline = time.monotonic() + END_S_MAX
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
