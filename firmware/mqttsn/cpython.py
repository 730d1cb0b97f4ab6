"""What MicroPython has and CPython has not, so that the same files run there. Not for nodes."""

import time

TICKS_PERIOD = 1 << 30  # as on 32-bit boards


def const(value: int) -> int:
    return value


def ticks_ms() -> int:
    return time.monotonic_ns() // 1_000_000 % TICKS_PERIOD


def ticks_diff(later: int, earlier: int) -> int:
    half = TICKS_PERIOD // 2
    return (later - earlier + half) % TICKS_PERIOD - half
