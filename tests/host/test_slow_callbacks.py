"""What held the loop: which callbacks are counted, and how seldom it is logged."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import time
from pathlib import Path
from time import monotonic
from urllib.request import urlopen

import pytest

from gateway.host.slow_callbacks import LINE_EVERY_S, SLOW_S, Callback, SlowCallbacks, timed
from hil.rig.gateway import GatewayProcess
from tests.support.waiting import until


def test_only_what_takes_longer_than_the_limit_counts() -> None:
    slow = SlowCallbacks()
    slow.ended(Callback.TIMER, monotonic())
    assert set(slow.counts.values()) == {0}
    slow.ended(Callback.TIMER, monotonic() - SLOW_S)
    assert slow.counts["timer"] == 1
    assert set(slow.counts) == {callback.value for callback in Callback}


def test_a_name_has_one_line_a_minute_with_the_worst_and_how_many(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow = SlowCallbacks()
    slow.note(Callback.PAGE, 0.06, 100.0)
    for at in range(101, 111):
        slow.note(Callback.PAGE, 0.07 if at == 105 else 0.06, float(at))
        slow.beat(float(at))
    slow.note(Callback.TIMER, 0.1, 110.0)
    slow.beat(100.0 + LINE_EVERY_S)
    slow.beat(100.0 + 3 * LINE_EVERY_S)
    assert [record.getMessage().partition(" since")[0] for record in caplog.records] == [
        "the event loop was held by page for 0.060 s, 1 times over 0.05 s",
        "the event loop was held by timer for 0.100 s, 1 times over 0.05 s",
        "the event loop was held by page for 0.070 s, 10 times over 0.05 s",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert (slow.counts["page"], slow.counts["timer"]) == (11, 1)


def test_each_step_of_a_task_is_measured_and_its_waits_are_not() -> None:
    async def work(busy_s: float) -> str:
        await asyncio.sleep(2 * SLOW_S)
        time.sleep(busy_s)  # noqa: ASYNC251 - the mistake
        await asyncio.sleep(0)
        return "done"

    async def story() -> tuple[int, int]:
        slow = SlowCallbacks()
        assert await timed(work(0), slow, Callback.PAGE) == "done"
        first = slow.counts["page"]
        assert await timed(work(1.2 * SLOW_S), slow, Callback.PAGE) == "done"
        return first, slow.counts["page"]

    first, second = asyncio.run(story())
    assert second > first


def test_a_task_that_is_measured_is_cancelled_fails_and_cleans_up_as_any_other() -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            seen.append("cleaned up")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("m")

    async def story() -> None:
        slow = SlowCallbacks()
        task = asyncio.create_task(timed(work(), slow, Callback.PAGE))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await timed(work(), slow, Callback.PAGE)
        with pytest.raises(ValueError, match="m"):
            await timed(fails(), slow, Callback.PAGE)

    asyncio.run(story())
    assert seen == ["cancelled", "cleaned up"] * 2


SLOW_FLUSH = """
import sys, time
from gateway.admin.event_log import EventLog
EventLog.flush = lambda self: [None for _ in iter(lambda: time.monotonic() > end, True)] if (
    end := time.monotonic() + 0.1) else None
from gateway.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_metrics_of_a_gateway_name_what_held_it(tmp_path: Path) -> None:
    config = '[admin]\nlisten = "127.0.0.1:0"\n'
    command = (sys.executable, "-c", SLOW_FLUSH)
    with GatewayProcess(tmp_path, "mqtt://127.0.0.1:1", config, command=command) as gateway:
        page = gateway.wait_for_log(r"status page on (http://\S+:\d+)").group(1)

        def counted() -> bool:
            with urlopen(f"{page}/metrics", timeout=10) as answer:
                text = answer.read().decode()
            found = re.search(r'slow_callbacks_total\{callback="housekeeping"\} (\d+)', text)
            return found is not None and int(found[1]) > 1

        until(counted)
        gateway.wait_for_log("the event loop was held by housekeeping for 0.1")
        assert gateway.stop() == 0
        assert gateway.log.count("the event loop was held by housekeeping") == 1
