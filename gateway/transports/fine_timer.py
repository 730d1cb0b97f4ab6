"""A timer for waits of less than a millisecond, in which event loops count: the kernel's timerfd.

Its descriptor becomes readable when the time is over, so no thread waits. To set it and to read it
takes two system calls, a wait of the loop's own takes none: so it is for waits that
gather enough.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
from collections.abc import Callable

_CLOCK_MONOTONIC = 1
_NS = 1_000_000_000
# `struct itimerspec` of these very symbols: two pairs of seconds and nanoseconds, each a C long.
_SPEC = struct.Struct("@4l")
_LIBC = ctypes.CDLL(None, use_errno=True)


class FineTimer:
    """One wait at a time; a new one takes the place of the last."""

    def __init__(
        self, descriptor: int, loop: asyncio.AbstractEventLoop, on_time: Callable[[], None]
    ) -> None:
        self._descriptor = descriptor
        self._loop = loop
        self._on_time = on_time
        self._is_set = False
        self._spec = ctypes.create_string_buffer(_SPEC.size)
        self._settime: Callable[..., int] = _LIBC.timerfd_settime
        loop.add_reader(descriptor, self._readable)

    def set(self, wait_s: float) -> None:
        """Call `on_time` once in so many seconds, more than 0 and less than 1."""
        self._is_set = True
        _SPEC.pack_into(self._spec, 0, 0, 0, 0, max(1, int(wait_s * _NS)))
        self._settime(self._descriptor, 0, self._spec, None)

    def close(self) -> None:
        """No call follows. Call it once."""
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1

    def _readable(self) -> None:
        self._is_set = False
        try:
            self._on_time()
        finally:
            # Setting it again makes it unreadable as well.
            if not self._is_set and self._descriptor >= 0:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._descriptor, 8)


def fine_timer(loop: asyncio.AbstractEventLoop, on_time: Callable[[], None]) -> FineTimer | None:
    """None where the system has none."""
    try:
        descriptor = int(_LIBC.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
    except AttributeError:
        return None
    return None if descriptor < 0 else FineTimer(descriptor, loop, on_time)
