"""Both event loops, and the log as an operator would read it."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeAlias

import pytest
import uvloop

from gateway.admin.log.logs import TextLines
from gateway.app.service.blocking_check import ALLOWED, Allowed, BlockingCheck, Mode

ALLOWED_HERE = (
    *ALLOWED,
    Allowed("made before the gateway serves", place="admin/http/assets.py"),
    Allowed("made before the gateway serves", place="admin/http/listening.py"),
    Allowed("pytest's log shows the source of a traceback", argument=r".*\.py$"),
)

Run: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a test's coroutine to its end. An exception that reached the loop fails the test, and so
    does a call in the loop's thread that may block, unless the test itself makes it.
    """
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = request.param

    def run_to_the_end(story: Coroutine[Any, Any, None]) -> None:
        stray: list[str] = []
        check = BlockingCheck(Mode.LOG, allowed=ALLOWED_HERE)
        check.arm()
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.get_loop().set_exception_handler(lambda _, context: stray.append(str(context)))
            try:
                runner.run(story)
            finally:
                check.disarm()
        assert stray == []
        assert check.findings == []

    return run_to_the_end


HELD = "the event loop was held by page for"


class Log:
    """What was written since it was last read, a line each, in the journal's form; but not that the
    loop was held, which says that this machine is busy.
    """

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.handler = logging.StreamHandler(self._stream)
        self.handler.setFormatter(TextLines(for_journal=True))

    def read(self) -> list[str]:
        lines = [each for each in self._stream.getvalue().splitlines() if HELD not in each]
        self._stream.seek(0)
        self._stream.truncate()
        return lines


@pytest.fixture
def log() -> Iterator[Log]:
    ours = logging.getLogger("tidegate")
    level, written = ours.level, Log()
    ours.addHandler(written.handler)
    ours.setLevel(logging.INFO)
    yield written
    ours.removeHandler(written.handler)
    ours.setLevel(level)
