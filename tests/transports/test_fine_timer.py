"""A timer of the kernel on a real loop: it rings once, not too soon, and is silent then."""

from __future__ import annotations

import asyncio
import os
import resource
import select
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace

import pytest

from gateway.transports import fine_timer as module
from gateway.transports.clock import now
from gateway.transports.fine_timer import FineTimer, fine_timer
from tests.transports.conftest import Run
from tests.transports.eventually import eventually

WAIT_S = 0.0004


def timer(ring: Callable[[], None]) -> FineTimer:
    made = fine_timer(asyncio.get_running_loop(), ring)
    assert made is not None
    return made


def is_readable(made: FineTimer) -> bool:
    """What would wake a loop up."""
    return bool(select.select([made._descriptor], [], [], 0)[0])


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_it_rings_once_and_not_too_soon(run: Run) -> None:
    async def story() -> None:
        rung: list[float] = []
        made = timer(lambda: rung.append(now()))
        began = now()
        made.set(WAIT_S)
        await eventually(lambda: rung, "the ring")
        assert rung[0] - began >= WAIT_S
        assert not is_readable(made)
        await turns(10)
        assert len(rung) == 1
        made.close()

    run(story())


def test_it_can_be_set_again_when_it_rings(run: Run) -> None:
    async def story() -> None:
        rung: list[float] = []

        def ring() -> None:
            rung.append(now())
            if len(rung) < 5:
                made.set(WAIT_S)

        made = timer(ring)
        made.set(WAIT_S)
        await eventually(lambda: len(rung) == 5, "five rings")
        assert all(later - sooner >= WAIT_S for sooner, later in pairwise(rung))
        assert not is_readable(made)
        made.close()

    run(story())


def test_a_new_wait_takes_the_place_of_the_last(run: Run) -> None:
    async def story() -> None:
        rung: list[float] = []
        made = timer(lambda: rung.append(now()))
        made.set(0.9)
        began = now()
        made.set(WAIT_S)
        await eventually(lambda: rung, "the ring")
        assert rung[0] - began < 0.9
        made.close()

    run(story())


def test_it_rings_no_more_once_closed_also_by_its_ring(run: Run) -> None:
    async def story() -> None:
        rung: list[str] = []
        others = timer(lambda: rung.append("closed"))
        others.set(WAIT_S)
        others.close()

        def ring() -> None:
            rung.append("closing")
            made.close()

        made = timer(ring)
        made.set(WAIT_S)
        await eventually(lambda: rung, "the ring")
        await turns(10)
        assert rung == ["closing"]

    run(story())


def test_an_exception_of_the_ring_leaves_it_silent_and_usable(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def story() -> None:
        raised: list[object] = []
        rung: list[bool] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: raised.append(context["exception"]))

        def ring() -> None:
            rung.append(True)
            if len(rung) == 1:
                raise RuntimeError("a defect of ours")

        made = timer(ring)
        made.set(WAIT_S)
        await eventually(lambda: raised, "the exception")
        await turns(10)
        assert len(rung) == 1
        made.set(WAIT_S)
        await eventually(lambda: len(rung) == 2, "the next ring")
        made.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(story())


def test_without_a_descriptor_there_is_none(run: Run) -> None:
    async def story() -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.open(os.devnull, os.O_RDONLY)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            assert fine_timer(asyncio.get_running_loop(), lambda: None) is None
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    run(story())


def test_a_c_library_without_it_has_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        assert fine_timer(asyncio.get_running_loop(), lambda: None) is None

    monkeypatch.setattr(module, "_LIBC", SimpleNamespace())  # of another system: no such symbol
    run(story())
