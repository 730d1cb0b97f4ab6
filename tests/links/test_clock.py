from __future__ import annotations

import asyncio
import time

from gateway.links.clock import now, unix_ms_at_zero
from tests.links.conftest import Run


def test_now_is_on_the_scale_of_the_event_loop(run: Run) -> None:
    async def story() -> None:
        before = now()
        # uvloop's clock stands still within one turn, and counts in milliseconds.
        await asyncio.sleep(0.002)
        in_between = asyncio.get_running_loop().time()
        assert before <= in_between + 0.001 <= now() + 0.001

    run(story())


def test_a_monotonic_time_becomes_wall_time() -> None:
    earliest = time.time_ns() // 1_000_000
    stamp = now() * 1000 + unix_ms_at_zero()
    latest = time.time_ns() // 1_000_000
    assert earliest - 2 <= stamp <= latest + 2
