"""The lag that is shown is the lag that a callback really had."""

from __future__ import annotations

import asyncio
import time

from gateway.admin.metrics.lag import LagMeter
from tests.admin.conftest import Run
from tests.admin.eventually import eventually

BLOCKED_S = 0.2
BEAT_S = 0.02


def test_a_loop_with_nothing_to_do_is_on_time(run: Run) -> None:
    async def story() -> None:
        meter = LagMeter(asyncio.get_running_loop(), beat_s=BEAT_S)
        meter.start()
        await asyncio.sleep(5 * BEAT_S)  # some beats
        assert meter.check() is None
        meter.stop()

    run(story())


def test_a_blocked_loop_is_late_until_it_keeps_up_again(run: Run) -> None:
    async def story() -> None:
        meter = LagMeter(asyncio.get_running_loop(), beat_s=BEAT_S, unhealthy_after_s=0.1)
        meter.start()
        time.sleep(BLOCKED_S)  # noqa: ASYNC251 - to block the loop is the point
        # No beat could come yet: it counts as late all the same.
        assert BLOCKED_S - 2 * BEAT_S < meter.lag_s < 20
        reason = meter.check()
        assert reason is not None
        assert reason.startswith("the event loop is 0.")
        assert "late, more than 0.1 s" in reason
        await eventually(lambda: meter.check() is None, "the loop keeps up again")
        assert meter.worst_s > BLOCKED_S - 2 * BEAT_S
        meter.stop()

    run(story())


def test_the_worst_moment_is_forgotten_in_the_end(run: Run) -> None:
    async def story() -> None:
        meter = LagMeter(asyncio.get_running_loop(), beat_s=BEAT_S, worst_kept_s=3 * BEAT_S)
        meter.start()
        time.sleep(BLOCKED_S)  # noqa: ASYNC251
        assert meter.worst_s > BLOCKED_S - 2 * BEAT_S
        await eventually(lambda: meter.worst_s < BLOCKED_S / 2, "the worst is over")
        meter.stop()

    run(story())


def test_a_stopped_meter_leaves_no_timer(run: Run) -> None:
    async def story() -> None:
        meter = LagMeter(asyncio.get_running_loop(), beat_s=BEAT_S)
        meter.start()
        meter.stop()
        meter.stop()
        time.sleep(BLOCKED_S)  # noqa: ASYNC251
        later_than_its_timer = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.0, later_than_its_timer.set_result, None)
        await later_than_its_timer
        assert meter.lag_s == 0.0

    run(story())
