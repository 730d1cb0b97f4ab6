"""What MicroPython has and CPython has not, so that the same files run there. Not for nodes."""

from __future__ import annotations

import select
import socket as sockets
import time
from collections.abc import Callable
from typing import TypeVar

TICKS_PERIOD = 1 << 30  # as on 32-bit boards


Value = TypeVar("Value")


def const(value: Value) -> Value:
    return value


class Clock:
    """Milliseconds from anywhere; a simulation sets its own."""

    now_ms: Callable[[], int] = staticmethod(lambda: time.monotonic_ns() // 1_000_000)


def ticks_ms() -> int:
    return Clock.now_ms() % TICKS_PERIOD


def ticks_diff(later: int, earlier: int) -> int:
    half = TICKS_PERIOD // 2
    return (later - earlier + half) % TICKS_PERIOD - half


def ticks_add(ticks: int, ms: int) -> int:
    return (ticks + ms) % TICKS_PERIOD


def sleep_ms(wait_ms: int) -> None:
    time.sleep(wait_ms / 1000)


class socket(sockets.socket):  # noqa: N801, the name that MicroPython has
    """A connected one is a stream too, as on MicroPython; only what is written is needed."""

    def write(self, buffer: bytearray, size: int) -> int:
        return self.send(memoryview(buffer)[:size])


class poll:  # noqa: N801
    def __init__(self) -> None:
        self._poll = select.poll()

    def register(self, asked: socket, flags: int) -> None:
        self._poll.register(asked, flags)

    def unregister(self, asked: socket) -> None:
        self._poll.unregister(asked)

    def ipoll(self, wait_ms: int) -> list[tuple[int, int]]:
        return self._poll.poll(wait_ms)
