"""How a life of a board ended, as its process tells the process that started it."""

from __future__ import annotations

from dataclasses import dataclass

FUEL_FULL = 10**15  # instructions: days


@dataclass(frozen=True, slots=True)
class Outcome:
    how: str  # exit, reset, deepsleep, watchdog, power_cut
    code: int = 0  # of exit: 0 the program came to its end, 1 it raised
    sleep_ms: int = 0
    rtc_memory: bytes = b""  # survives deep sleep and reset, not a power cut
    fuel_used: int = 0
