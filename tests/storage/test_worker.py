"""Jobs of a thread, answered on the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from gateway.storage.worker import WorkThread


def with_thread(story: Callable[[WorkThread], Awaitable[None]]) -> None:
    async def tell() -> None:
        thread = WorkThread(asyncio.get_running_loop(), "some work")
        try:
            await story(thread)
        finally:
            thread.stop()

    asyncio.run(asyncio.wait_for(tell(), 200))


def test_jobs_run_one_after_the_other_in_a_thread_of_that_name() -> None:
    done: list[tuple[int, str]] = []

    def work(number: int) -> int:
        done.append((number, threading.current_thread().name))
        return number * 2

    async def story(thread: WorkThread) -> None:
        assert await asyncio.gather(*(thread.run(work, number) for number in range(20))) == [
            number * 2 for number in range(20)
        ]

    with_thread(story)
    assert done == [(number, "some work") for number in range(20)]


def test_what_a_job_raises_is_its_futures_and_the_next_one_runs() -> None:
    async def story(thread: WorkThread) -> None:
        failed = thread.run(int, "no number")
        assert await thread.run(int, "7") == 7
        with pytest.raises(ValueError, match="no number"):
            await failed

    with_thread(story)


def test_a_job_whose_future_was_cancelled_disturbs_nobody() -> None:
    may_end = threading.Event()

    async def story(thread: WorkThread) -> None:
        troubles: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: troubles.append(told))
        cancelled = thread.run(may_end.wait, 30.0)
        cancelled.cancel()
        may_end.set()
        assert await thread.run(int, "7") == 7
        assert (cancelled.cancelled(), troubles) == (True, [])

    with_thread(story)


def test_a_stop_waits_for_nothing_and_the_jobs_that_are_there_are_done() -> None:
    done: list[int] = []
    may_begin, have_ended = threading.Event(), threading.Event()

    async def story(thread: WorkThread) -> None:
        thread.run(may_begin.wait, 30.0)
        for number in range(5):
            thread.run(done.append, number)
        thread.run(have_ended.set)

    with_thread(story)
    assert done == []
    may_begin.set()
    assert have_ended.wait(30.0)
    assert done == list(range(5))


def test_a_job_that_ends_after_its_loop_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    uncaught: list[object] = []
    monkeypatch.setattr(threading, "excepthook", uncaught.append)
    loop = asyncio.new_event_loop()
    thread = WorkThread(loop, "late")
    may_end = threading.Event()
    thread.run(may_end.wait, 30.0)
    loop.close()
    may_end.set()
    thread.stop()
    assert uncaught == []
