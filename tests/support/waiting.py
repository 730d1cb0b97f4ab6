"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMEOUT_S = 200.0
POLL_INTERVAL_S = 0.02


def until(happened: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not happened():
        if time.monotonic() > deadline:
            raise AssertionError(f"it has not happened within {timeout_s:g} s")
        time.sleep(POLL_INTERVAL_S)
