"""A call that may never return: one at a time, given up in time, and its end noticed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from gateway.host.side_thread import BusyError, NoThreadError, OverdueError, SideThread, within

LONG_S = 30.0


def told(story: Callable[[SideThread, threading.Event], Awaitable[None]]) -> None:
    """With an event that ends what hangs."""
    ends = threading.Event()

    async def tell() -> None:
        try:
            await story(SideThread("some work"), ends)
        finally:
            ends.set()

    asyncio.run(asyncio.wait_for(tell(), LONG_S))


def test_what_a_call_returns_or_raises_is_the_answer() -> None:
    async def story(thread: SideThread, _: threading.Event) -> None:
        assert await thread.run(lambda: 7, LONG_S) == 7
        with pytest.raises(ValueError, match="no number"):
            await thread.run(lambda: int("no number"), LONG_S)
        # Which is not the limit here.
        with pytest.raises(TimeoutError, match="the disk"):
            await thread.run(lambda: (_ for _ in ()).throw(TimeoutError("the disk")), LONG_S)
        assert thread.overdue_s is None

    told(story)


def test_what_hangs_is_given_up_and_holds_one_thread_until_it_ends() -> None:
    async def story(thread: SideThread, ends: threading.Event) -> None:
        ended = asyncio.Event()
        with pytest.raises(OverdueError):
            await thread.run(ends.wait, 0.01, ended.set)
        threads = threading.active_count()
        for _ in range(100):
            with pytest.raises(BusyError):
                await thread.run(int, LONG_S)
        assert threading.active_count() == threads
        assert thread.overdue_s is not None
        assert not ended.is_set()
        ends.set()
        await ended.wait()
        assert thread.overdue_s is None
        assert await thread.run(int, LONG_S) == 0

    told(story)


def test_a_second_call_is_refused_while_the_first_is_in_time() -> None:
    async def story(thread: SideThread, ends: threading.Event) -> None:
        first = asyncio.create_task(thread.run(ends.wait, LONG_S))
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await thread.run(int, LONG_S)
        assert thread.overdue_s is None, "it still may"
        ends.set()
        assert await first

    told(story)


def test_without_a_thread_it_says_so_and_a_command_does_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def story(thread: SideThread, _: threading.Event) -> None:
        monkeypatch.setattr(threading.Thread, "start", none_left)
        with pytest.raises(NoThreadError):
            await thread.run(int, LONG_S)
        assert not thread.is_busy
        assert within(LONG_S, lambda: 7, "some work") == 7
        monkeypatch.undo()

    told(story)


def test_a_command_gives_up_as_well() -> None:
    ends = threading.Event()
    with pytest.raises(OverdueError):
        within(0.01, ends.wait, "some work")
    ends.set()
    assert within(LONG_S, lambda: 7, "some work") == 7
